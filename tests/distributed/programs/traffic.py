"""Counts the bytes that a process sends to exchange gradients; collectives are counted as if they were rings."""

from retrograd.distributed.process_group import ProcessGroup


class Counting:
    """A communicator that counts bytes; `sent` is the total over all communicators."""

    sent = 0

    def __init__(self, comm):
        self._comm = comm

    def __getattr__(self, name):
        found = getattr(self._comm, name)
        if name not in COUNTED:
            return found

        def counted(*arguments):
            Counting.sent += COUNTED[name](self._comm, *arguments)
            return found(*arguments)

        return counted


def of_others(comm, numbers):
    """Return the bytes that are sent to others if each process has an equal part of the array."""
    return numbers.nbytes * (comm.Get_size() - 1) // comm.Get_size()


def to_others(comm, sent):
    numbers, counts = sent
    return numbers.nbytes - int(counts[comm.Get_rank()]) * numbers.itemsize


COUNTED = {
    "Isend": lambda comm, sent, *_: sent.nbytes,
    "Iallreduce": lambda comm, _, x, *op: 2 * of_others(comm, x),
    "Ialltoallv": lambda comm, sent, _: to_others(comm, sent),
    "Iallgatherv": lambda comm, _, all_: of_others(comm, all_[0]),
    "Iallgather": lambda comm, own, _: own.nbytes * (comm.Get_size() - 1),
}


def count_traffic():
    """Count the bytes that are sent from now on, in communicators that are created from now on."""
    duplicate = ProcessGroup.duplicate

    def counting(group):
        comm = duplicate(group)
        return None if comm is None else Counting(comm)

    ProcessGroup.duplicate = counting
