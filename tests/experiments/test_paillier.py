import pytest
from phe import generate_paillier_keypair

from nightjar.experiments.paillier import decrypt, encrypt, fixed, from_bytes, public_key, random_below_n, to_bytes

PUBLIC, PRIVATE = generate_paillier_keypair(n_length=256)


@pytest.mark.parametrize("number", [0, 1, -1, 2**100, -(2**100)])
def test_numbers_of_any_sign_come_back(number):
    assert decrypt(PRIVATE, encrypt(PUBLIC, number)) == number


def test_sums_and_products_with_known_numbers_are_exact():
    assert decrypt(PRIVATE, encrypt(PUBLIC, -(2**70)) + encrypt(PUBLIC, 3) * -5) == -(2**70) - 15


def test_the_same_number_has_another_ciphertext_each_time():
    assert to_bytes([encrypt(PUBLIC, 7)]) != to_bytes([encrypt(PUBLIC, 7)])


def test_ciphertexts_are_sent_with_twice_the_length_of_n():
    sent = to_bytes([encrypt(PUBLIC, 5)])
    assert [len(each) for each in sent] == [64]
    assert decrypt(PRIVATE, from_bytes(public_key(PUBLIC.n.to_bytes(32)), sent)[0]) == 5


def test_a_mask_hides_a_number_and_is_taken_off_again():
    mask = random_below_n(PUBLIC)
    seen = decrypt(PRIVATE, encrypt(PUBLIC, -4) + encrypt(PUBLIC, mask))
    assert seen != -4
    assert (seen - mask) % PUBLIC.n == PUBLIC.n - 4


def test_fixed_point_is_rounded():
    assert fixed([0.5, -1.25, 0.001], 8) == [128, -320, 0]
