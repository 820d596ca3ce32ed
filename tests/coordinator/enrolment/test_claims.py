"""What becomes of a claim and a key."""

import pytest

from nightjar.coordinator.enrolment.claims import Admitted, Claim, ClaimRefused, Credential, KeyState, Known, redeem

KEY, OTHER = 64 * "a", 64 * "b"
CLAIM = Claim(name="kitchen", sha256="", device="pi", uses=1, uses_left=1, created_s=0.0, expires_s=100.0)


def held(standing: KeyState, claim: str = "kitchen") -> Credential:
    return Credential(key=KEY, device="pi", claim=claim, standing=standing, csr="", address="", requested_s=0.0)


def test_a_good_claim_lets_a_new_key_in_under_the_name_that_the_claim_has():
    assert redeem(CLAIM, None, KEY, 50.0) == Admitted("pi", KeyState.GRANTED)


def test_a_claim_for_several_devices_names_them_by_their_keys():
    several = Claim(name="shelf", sha256="", prefix="pi", uses=20, uses_left=20, created_s=0.0, expires_s=100.0)
    names = {redeem(several, None, key, 0.0).device for key in (KEY, OTHER)}
    assert names == {"pi-aaaaaaaa", "pi-bbbbbbbb"}


def test_a_claim_with_approval_lets_a_person_decide():
    by_hand = Claim(name="door", sha256="", approval=True, created_s=0.0, expires_s=100.0)
    assert redeem(by_hand, None, KEY, 0.0).standing is KeyState.WAITING


@pytest.mark.parametrize(
    ("claim", "now_s", "code"),
    [
        (None, 0.0, "claim-unknown"),
        (CLAIM, 100.0, "claim-expired"),
        (Claim(name="used", sha256="", uses_left=0, created_s=0.0, expires_s=100.0), 0.0, "claim-used"),
    ],
)
def test_other_claims_let_no_new_key_in(claim, now_s, code):
    assert redeem(claim, None, KEY, now_s).code == code


@pytest.mark.parametrize("standing", [KeyState.WAITING, KeyState.GRANTED, KeyState.ISSUED])
def test_the_same_key_with_the_same_claim_is_known_however_late_and_though_the_claim_is_used(standing):
    used = Claim(name="kitchen", sha256="", uses_left=0, created_s=0.0, expires_s=100.0)
    assert redeem(used, held(standing), KEY, 1000.0) == Known(held(standing))


@pytest.mark.parametrize(
    ("credential", "code"),
    [
        (held(KeyState.ACTIVE), "claim-burnt"),
        (held(KeyState.REVOKED), "revoked"),
        *((held(standing, claim="another"), "key-known") for standing in KeyState),
        (held(KeyState.ISSUED, claim=""), "key-known"),
    ],
)
def test_a_key_that_is_at_work_revoked_or_of_another_claim_is_refused(credential, code):
    found = redeem(CLAIM, credential, KEY, 0.0)
    assert isinstance(found, ClaimRefused)
    assert found.code == code
