"""A pool of processes that does items of work and gives the results back in their order.

Comes in: a function and items. Goes out: what the function gives for each, in the order of the
items, so that the number of processes changes no byte of what is written.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from audit.errors import AuditError

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 3
_WORK: list[Callable[[Any], Any]] = []


@contextmanager
def ordered_map(
    work: Callable[[Item], Result], *, n_workers: int
) -> Iterator[Callable[[Iterator[Item]], Iterator[Result]]]:
    """Give a function that maps `work` over items; with one worker, in this process.

    Raises
    ------
    AuditError
        If a worker is ended from outside.
    """
    if n_workers <= 1:
        yield partial(map, work)
        return
    pool = ProcessPoolExecutor(
        n_workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(work,),
    )
    try:
        yield partial(_in_order, pool, _AHEAD * n_workers)
    finally:
        pool.shutdown(cancel_futures=True)


def _in_order(pool: ProcessPoolExecutor, n_ahead: int, items: Iterator[Any]) -> Iterator[Any]:
    waiting: deque[Future[Any]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(_do, item))
            if len(waiting) >= n_ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise AuditError(
            "A worker process was ended from outside.",
            where="corpus",
            do="There may be too little memory; try with fewer workers.",
        ) from None


def _start(work: Callable[[Any], Any]) -> None:
    _WORK[:] = [work]
    # A worker whose parent was killed would wait for work for ever.
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _do(item: Any) -> Any:
    return _WORK[0](item)


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
