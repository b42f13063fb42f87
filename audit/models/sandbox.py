"""Shut a process off: it keeps its memory and its open files, and can get nothing else.

A reader of pickled weights is foreign code as soon as it has a fault. In a process that is shut off
it can open no file, no socket and no other process, start no program, and send no signal. The
filter is seccomp's (Linux 3.17 and later): all calls but those on the list fail with EPERM.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct

from audit.errors import AuditError

# Name of the call: its numbers on x86-64 and on arm64. None of them takes a path, an address or
# the number of another process; `sendto` writes the answer into the socket that is already open.
_PERMITTED = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "getpid": (39, 172),
    "sendto": (44, 206),
    "exit": (60, 93),
    "fsync": (74, 82),
    "gettimeofday": (96, 169),
    "sysinfo": (99, 179),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "exit_group": (231, 94),
    "getrandom": (318, 278),
}
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Machine: its column above, and its number in the kernel (AUDIT_ARCH)."""

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2  # of prctl
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # instructions of the filter
_NUMBER_AT, _MACHINE_AT = 0, 4  # places in the data of a call
_KILL, _ALLOW, _REFUSE = 0x80000000, 0x7FFF0000, 0x00050000 | 1  # with EPERM


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def shut_off() -> None:
    """Shut this process off for the rest of its life; raise AuditError where that is impossible."""
    if not (_install_filter() and _is_shut_off()):
        raise AuditError(
            "This system cannot isolate a process from files, network and programs, so pickled "
            "weights are not read here.",
            do="Convert the model on Linux (x86-64 or arm64), or save it as safetensors on a "
            "machine where its code may run.",
        )


def _install_filter() -> bool:
    column, machine_number = _MACHINES.get(platform.machine(), (0, 0))
    control = getattr(ctypes.CDLL(None), "prctl", None)
    if not machine_number or control is None or os.uname().sysname != "Linux":
        return False
    numbers = [call_numbers[column] for call_numbers in _PERMITTED.values()]
    steps = [(_LOAD, 0, 0, _MACHINE_AT), (_JUMP_IF_EQUAL, 1, 0, machine_number)]
    steps += [(_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER_AT)]
    # A call that equals a number on the list jumps over the rest of it and the refusal.
    n_left = len(numbers)
    for number in numbers:
        steps.append((_JUMP_IF_EQUAL, n_left, 0, number))
        n_left -= 1
    steps += [(_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = _Program(len(steps), ctypes.addressof(code))
    return bool(
        control(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
        and control(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) == 0
    )


def _is_shut_off() -> bool:
    """Whether a socket is refused: the filter is tested before anything relies on it."""
    try:
        socket.socket().close()
    except PermissionError:
        return True
    return False
