"""Linear regression of two parties with different columns about the same people, and a key holder.

A small reference protocol for three honest but curious parties that do not collude, not a product (Yang et al. 2019,
"Federated Machine Learning: Concept and Applications", section 2.4.2). A holds columns X_A; B columns X_B and y; C the
Paillier key. After alignment (:mod:`nightjar.experiments.alignment`), in each step, with [x] for the ciphertext of x::

    A -> B   [u] of u = X_A theta_A, and [sum u^2]
    B -> A   [d] = [u] + [X_B theta_B - y]
    B -> C   [sum d^2] = [sum u^2] + sum 2 v [u] + [sum v^2]   with v = X_B theta_B - y
    A -> C   [g_A + R_A], g_A = sum of d x_A           B -> C   [g_B + R_B]
    C -> A   g_A + R_A                                 C -> B   g_B + R_B
    A, B     theta <- theta - rate (g / n + penalty theta)

The masks R are uniform modulo n, so C sees random numbers and the loss. B must make [v] with new randomness: A knows
that of [u], and would read v off [d] otherwise. The gradients are A's and B's to know; they are sums over people, and
with as many of them as there are people, A could solve for the d. Stop early, or know that.

    python -m nightjar.experiments.vertical_linear --form short --out build/vertical_linear --json
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from phe import generate_paillier_keypair

from nightjar.experiments import alignment
from nightjar.experiments.frame import Request, ResultRow, page_command, row
from nightjar.experiments.linear_regression import (
    Descent,
    Matrix,
    Regression,
    diabetes,
    pooled,
    pooled_descent,
    standardised,
)
from nightjar.experiments.paillier import (
    Public,
    decrypt,
    encrypt,
    fixed,
    from_bytes,
    public_key,
    random_below_n,
    to_bytes,
)
from nightjar.experiments.parties import Post, ProtocolRun, run_parties

A, B, C = "columns", "labels", "keys"
"""Names of the parties."""
X_BITS, U_BITS = 32, 32
"""Fixed point of columns and of predictions."""


def column_holder(post: Post, people: Sequence[str], x: list[list[float]], at: Descent) -> list[float]:
    """Party A. Returns theta_A for standardised columns."""
    columns = standardised(np.array(x)[alignment.first(post, B, people)])
    public, theta = public_key(post.receive(C, "n")), np.zeros(columns.shape[1])
    for _ in range(at.steps):
        u = fixed(columns @ theta, U_BITS)
        sent = [to_bytes(encrypt(public, each) for each in numbers) for numbers in (u, [sum(each**2 for each in u)])]
        post.send(B, "predictions", sent)
        theta = theta - at.rate * (_gradient(post, public, post.receive(B, "errors"), columns) + at.penalty * theta)
    return theta.tolist()


def label_holder(post: Post, people: Sequence[str], x: list[list[float]], y: list[float], at: Descent) -> list[float]:
    """Party B. Returns theta_B and the intercept."""
    rows = alignment.second(post, A, people)
    columns, labels = standardised(np.array(x)[rows]), np.array(y)[rows]
    intercept = labels.mean()
    public, theta = public_key(post.receive(C, "n")), np.zeros(columns.shape[1])
    for _ in range(at.steps):
        u, (squares,) = (from_bytes(public, sent) for sent in post.receive(A, "predictions"))
        v = fixed(columns @ theta - (labels - intercept), U_BITS)
        errors = to_bytes(mine + encrypt(public, own) for mine, own in zip(u, v, strict=True))
        post.send(A, "errors", errors)
        loss = squares + encrypt(public, sum(own**2 for own in v))
        for each, own in zip(u, v, strict=True):
            loss += each * (2 * own)
        post.send(C, "loss", to_bytes([loss]))
        theta = theta - at.rate * (_gradient(post, public, errors, columns) + at.penalty * theta)
    return [*theta.tolist(), float(intercept)]


def key_holder(post: Post, at: Descent) -> list[float]:
    """Party C. Returns the sum of squared errors before each step."""
    public, private = generate_paillier_keypair(n_length=at.key_bits)
    losses = []
    for party in (A, B):
        post.send(party, "n", public.n.to_bytes(at.key_bits // 8))
    for _ in range(at.steps):
        (loss,) = from_bytes(public, post.receive(B, "loss"))
        losses.append(decrypt(private, loss) / 4.0**U_BITS)
        for party in (B, A):
            masked = from_bytes(public, post.receive(party, "masked gradient"))
            answer = [(decrypt(private, each) % public.n).to_bytes(at.key_bits // 8) for each in masked]
            post.send(party, "masked number", answer)
    return losses


def _gradient(post: Post, public: Public, errors: list[bytes], columns: Matrix) -> Matrix:
    """The mean of d x, (columns,), decrypted by C, who does not see it."""
    encrypted, masked, masks = from_bytes(public, errors), [], []
    for column in columns.T:
        masks.append(random_below_n(public))
        total = encrypt(public, masks[-1])
        for error, x in zip(encrypted, fixed(column, X_BITS), strict=True):
            total += error * x
        masked.append(total)
    post.send(C, "masked gradient", to_bytes(masked))
    found = []
    for answer, mask in zip(post.receive(C, "masked number"), masks, strict=True):
        number = (int.from_bytes(answer) - mask) % public.n
        found.append((number - public.n if number > public.n // 2 else number) / 2.0 ** (U_BITS + X_BITS))
    return np.array(found) / len(columns)


def run_protocol(problem: Regression, at: Descent) -> ProtocolRun:
    """Run the protocol in three processes."""
    return run_parties({
        A: partial(column_holder, people=problem.people_a, x=problem.x_a.tolist(), at=at),
        B: partial(label_holder, people=problem.people_b, x=problem.x_b.tolist(), y=problem.y.tolist(), at=at),
        C: partial(key_holder, at=at),
    })  # fmt: skip


def run(request: Request) -> list[ResultRow]:
    """Vertical linear regression of three processes, beside the same in one place and scikit-learn."""
    from sklearn.linear_model import Ridge

    at = request.pick(Descent(steps=5, key_bits=512), Descent(steps=80, key_bits=1024), Descent(steps=150))
    problem = diabetes(request.pick(40, 120, 442), seed=1)
    made = run_protocol(problem, at)
    theta = np.array(made.results[A] + made.results[B][:-1])
    x, y = pooled(problem)
    ridge = Ridge(alpha=len(y) * at.penalty).fit(x, y)
    explained, in_one_place = (
        float(1 - ((x @ each - (y - y.mean())) ** 2).sum() / ((y - y.mean()) ** 2).sum())
        for each in (theta, ridge.coef_)
    )
    figures = {
        "largest difference from the same descent": float(np.abs(theta - pooled_descent(x, y, at)).max()),
        "largest difference from scikit-learn": float(np.abs(theta - ridge.coef_).max()),
        "people in common": float(len(y)),
        "bits of the key": float(at.key_bits),
        "kB sent by A": made.sent_bytes(sender=A) / 1000,
        "kB sent by B": made.sent_bytes(sender=B) / 1000,
        **{f"processor seconds of {party}": made.seconds[party] for party in (A, B, C)},
    }
    return [
        row(
            request,
            "vertical linear regression",
            [explained],
            seeds=[1],
            pooled=in_one_place,
            measure="share of variance explained",
            figures=figures,
        )
    ]


main = page_command("vertical_linear", run)

if __name__ == "__main__":
    main()
