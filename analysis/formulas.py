"""Published steady-state models of a long flow's rate against loss, drawn beside what was measured.

All take the loss probability per packet and the round trip in seconds, and give bits per second. `acked` is b, the
packets per acknowledgement: 1 if each is acknowledged, 2 with delayed acknowledgements.
"""

import numpy as np

SEGMENT_BYTES = 1460


def mathis(loss, rtt, segment=SEGMENT_BYTES, acked=1):
    """Mathis, Semke, Mahdavi and Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm", CCR 1997.

    No timeouts and no limit on the window: an upper bound that is close below one per cent of loss.
    """
    return 8.0 * segment / rtt * np.sqrt(3.0 / (2.0 * acked * np.asarray(loss, dtype=float)))


def pftk(loss, rtt, segment=SEGMENT_BYTES, acked=1, rto=1.0):
    """Padhye, Firoiu, Towsley and Kurose, "Modeling TCP throughput", SIGCOMM 1998, eq. 30 without the window limit."""
    p = np.asarray(loss, dtype=float)
    recovery = rtt * np.sqrt(2.0 * acked * p / 3.0)
    timeouts = rto * np.minimum(1.0, 3.0 * np.sqrt(3.0 * acked * p / 8.0)) * p * (1.0 + 32.0 * p**2)
    return 8.0 * segment / (recovery + timeouts)


def tfrc(loss, rtt, segment=SEGMENT_BYTES, acked=1):
    """RFC 5348 §3.1 with t_RTO = 4 R: what a smooth flow should send beside TCP."""
    p = np.asarray(loss, dtype=float)
    recovery = rtt * np.sqrt(2.0 * acked * p / 3.0)
    timeouts = 4.0 * rtt * 3.0 * np.sqrt(3.0 * acked * p / 8.0) * p * (1.0 + 32.0 * p**2)
    return 8.0 * segment / (recovery + timeouts)


def cubic(loss, rtt, segment=SEGMENT_BYTES, c=0.4, beta=0.7):
    """RFC 9438 §5.1, the larger of CUBIC's own window and that of its Reno-friendly region."""
    p = np.asarray(loss, dtype=float)
    own = (c * (3.0 + beta) / (4.0 * (1.0 - beta))) ** 0.25 * rtt**0.75 / p**0.75
    friendly = 1.2 / np.sqrt(p)
    return 8.0 * segment / rtt * np.maximum(own, friendly)
