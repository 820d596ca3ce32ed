import queue
import threading

from nightjar.edge_agent.inbox import Job, WorkDone
from nightjar.edge_agent.shell.worker import JobThread, ThreadWorker


def test_outcomes_and_exceptions_come_back_with_their_number():
    done = queue.SimpleQueue()
    thread = JobThread()
    worker = ThreadWorker(done.put, thread)
    fault = ValueError("no")

    def fail(_should_stop):
        raise fault

    worker.start(Job(1, lambda _should_stop: "fine"))
    worker.start(Job(2, fail))
    worker.start(Job(3, lambda should_stop: should_stop()))
    assert [done.get(timeout=10) for _ in range(3)] == [WorkDone(1, "fine"), WorkDone(2, fault), WorkDone(3, False)]
    thread.close(10)


def test_a_stopped_job_is_told_and_one_that_did_not_begin_never_does():
    done, begun, go = queue.SimpleQueue(), threading.Event(), threading.Event()
    thread = JobThread()
    worker = ThreadWorker(done.put, thread)

    def wait(should_stop):
        begun.set()
        go.wait(10)
        return should_stop()

    worker.start(Job(1, wait))
    worker.start(Job(2, lambda _should_stop: "never"))
    worker.start(Job(3, lambda _should_stop: "after"))
    assert begun.wait(10)
    worker.stop(1)
    worker.stop(2)
    go.set()
    assert [done.get(timeout=10) for _ in range(2)] == [WorkDone(1, True), WorkDone(3, "after")]
    thread.close(10)
