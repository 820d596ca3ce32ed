"""States as simulation.demo.reading puts them together."""

import copy

EARLY = {
    "task": {
        "name": "keyboard",
        "state": "running",
        "rounds_wanted": 2,
        "version": 0,
        "parameters": 1000,
        "dense_bytes": 4000,
        "figures": ("top-1 recall", "top-3 recall"),
        "baseline": {"label": "trigram", "top1": 0.2, "top3": 0.3},
    },
    "round": None,
    "devices": [],
    "rounds": [],
    "versions": [{"version": 0, "manifest": "m0", "top1": None, "top3": None, "stage": "current"}],
    "counters": {
        "rounds_committed": 0,
        "rounds_abandoned": 0,
        "reports_accepted": 0,
        "reports_duplicate": 0,
        "reports_late": 0,
        "reports_invalid": {},
        "dropouts": {},
        "bytes_up": 0,
        "bytes_down": 0,
        "report_bytes_median": None,
    },
    "broker": "mosquitto",
}


def middle():
    state = copy.deepcopy(EARLY)
    state["versions"][0] |= {"top1": 0.05, "top3": 0.1}
    state["round"] = {
        "number": 1,
        "phase": "reporting",
        "reason": "",
        "selected": ["phone-02", "phone-01"],
        "reported": ["phone-02"],
        "dropped": {"phone-01": "in-use"},
        "deadline_in_s": 12.0,
    }
    state["devices"] = [
        {"device": "phone-01", "online": True, "state": "ineligible", "reason": "unplugged", "runtime": "r 1"},
        {"device": "phone-02", "online": False, "state": "training", "reason": "", "runtime": ""},
    ]
    return state


def done():
    state = middle()
    state["round"] = None
    state["task"] |= {"state": "done", "version": 1}
    state["versions"].append({"version": 1, "manifest": "m1", "top1": 0.125, "top3": 0.25, "stage": "current"})
    committed = {"number": 1, "phase": "committed", "reason": "", "selected": 2, "accepted": 1, "seconds": 2.0}
    abandoned = {"number": 2, "phase": "abandoned", "reason": "waiting: 1 of 2 phones eligible", "selected": 0}
    state["rounds"] = [
        committed | {"dropped": {"in-use": 1}, "top1": 0.125, "top3": 0.25, "stage": "current"},
        abandoned | {"accepted": 0, "seconds": 1.0, "dropped": {}, "top1": None, "top3": None, "stage": "current"},
    ]
    state["counters"] |= {
        "rounds_committed": 1,
        "rounds_abandoned": 1,
        "reports_accepted": 1,
        "reports_late": 2,
        "reports_invalid": {"crc": 3},
        "dropouts": {"unplugged": 1},
        "bytes_up": 500,
        "bytes_down": 9000,
        "report_bytes_median": 400,
    }
    return state
