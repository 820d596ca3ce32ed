import asyncio

from coordinator.shell import broker, embedded_broker


class _Subscriber:
    def __init__(self, name):
        self.client_id = name


def test_a_walk_over_subscriptions_sees_them_as_it_began():
    table = embedded_broker.Subscriptions(a=["one", "two"], b=["three"])
    seen = []
    for wanted, subscribers in table.items():
        for subscriber in subscribers:
            seen.append((wanted, subscriber))
            table.pop("b", None)
            table[f"new {len(seen)}"] = []
            table["a"].clear()
    assert seen == [("a", "one"), ("a", "two"), ("b", "three")]
    for wanted in table:
        del table[wanted]
    assert not table


def test_a_message_reaches_everybody_though_subscriptions_change_while_it_goes_out(monkeypatch):
    asked = []

    async def deliver():
        doors = broker.Doors("127.0.0.1", 0, "nightjar", "")
        ours = embedded_broker.EmbeddedBroker(embedded_broker.configuration(doors), doors)
        for name in "abc":
            ours.subscriptions[f"{name}/#"] = []
        ours.subscriptions["topic"] = [(_Subscriber("first"), 1), (_Subscriber("second"), 1)]
        ours.subscriptions["+"] = [(_Subscriber("third"), 1)]

        async def asks(session, topic, action):
            asked.append(session.client_id)
            await asyncio.sleep(0)
            ours.subscriptions[f"came with {len(asked)}"] = []
            ours.subscriptions["topic"][:] = ours.subscriptions["topic"][1:]
            return False  # what follows is amqtt's

        monkeypatch.setattr(ours, "_topic_filtering", asks)
        await ours._broadcast_message(None, "topic", b"data")
        await ours._run_broadcast(ours._tasks_queue)

    asyncio.run(deliver())
    assert asked == ["first", "second", "third"]
