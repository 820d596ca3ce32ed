import pytest

from tests.brokers import KINDS


@pytest.fixture(params=KINDS)
def mosquitto_or_embedded(request):
    return request.param
