"""Carrying out jobs on a Ray cluster: an existing one, or one on this machine for the length of the command.

On several machines, the working folder is best on a file system that they share: then a run that loses its machine
goes on from its checkpoint elsewhere. What a job returns comes back to the machine that gave the command.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Sequence
from typing import Any

from fewtask.errors import FewtaskError, RunError
from fewtask.plugins import VARIABLE
from fewtask.threads import THREAD_VARIABLES, one_thread, usable_cores
from fewtask.workers.jobs import RETRIES, Failure, InterruptedJobsError, Job
from fewtask.workers.progress import JobProgress

OBJECT_STORE_BYTES = 100 * 1024 * 1024
SAVING_SECONDS = 20.0
ANSWER_SECONDS = 10.0


class RayExecutor:
    """One CPU a job; Ray starts a job again when its worker or machine is lost."""

    def __init__(self, address: str | None = None, workers: int = 0, retries: int = RETRIES) -> None:
        self.address, self.workers, self.retries = address, workers, retries

    def execute(self, jobs: Sequence[Job], progress: JobProgress) -> list[Failure]:
        ray = self._connect()
        task = ray.remote(num_cpus=1, max_retries=self.retries)(_remote_run)
        waiting = list(jobs)
        running: dict[Any, Job] = {}
        failures: list[Failure] = []
        limit = self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        try:
            while waiting or running:
                while waiting and len(running) < limit:
                    job = waiting.pop(0)
                    running[task.remote(job)] = job
                    progress.started(job)
                ready, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
                for reference in ready:
                    self._settle(ray, reference, running.pop(reference), failures, progress)
        except KeyboardInterrupt:
            self._stop(ray, list(running))
            raise InterruptedJobsError from None
        finally:
            ray.shutdown()
        return failures

    def _connect(self) -> Any:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError as error:
            raise RunError('--executor ray needs the package ray: pip install "fewtask[ray]"') from error
        if self.address:
            _check_answers(self.address)
        # Scripts of --plugin must lie at the same place on every machine.
        variables = dict.fromkeys(THREAD_VARIABLES, "1") | {VARIABLE: os.environ.get(VARIABLE, "")}
        try:
            if self.address:
                ray.init(
                    address=self.address,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    runtime_env={"env_vars": variables},
                )
            else:
                # Workers on this machine have the environment of this process.
                with one_thread():
                    ray.init(
                        address="local",
                        num_cpus=self.workers or usable_cores(),
                        include_dashboard=False,
                        log_to_driver=False,
                        logging_level=logging.ERROR,
                        object_store_memory=OBJECT_STORE_BYTES,
                    )
        except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
            where = f"the Ray cluster at {self.address}" if self.address else "a Ray cluster on this machine"
            # Newer Rays ask for a token, which a process away from the cluster's own session does not look for.
            hint = (
                " (if it asks for a token: RAY_AUTH_MODE=token, or --address auto on its head)" if self.address else ""
            )
            raise RunError(f"cannot reach {where}: {str(error).splitlines()[0]}{hint}") from error
        return ray

    def _settle(self, ray: Any, reference: Any, job: Job, failures: list[Failure], progress: JobProgress) -> None:
        try:
            outcome = ray.get(reference)
        except ray.exceptions.RayError as error:
            outcome = {"failed": str(error)}
        if "failed" in outcome:
            failures.append(Failure(job, outcome["failed"]))
            progress.failed(job, outcome["failed"])
            return
        job.received(outcome["done"])
        progress.finished(job)

    def _stop(self, ray: Any, references: list[Any]) -> None:
        """Interrupts the jobs, which then save their state, and waits for that."""
        for reference in references:
            ray.cancel(reference)
        deadline = time.monotonic() + SAVING_SECONDS
        while references and time.monotonic() < deadline:
            _, references = ray.wait(references, num_returns=len(references), timeout=1.0)


def _check_answers(address: str) -> None:
    """Ray tries an address that does not answer for minutes; this takes seconds."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        raise RunError(f"no Ray cluster answers at {address} ({error}): is it running?") from error


def _remote_run(job: Job) -> dict[str, Any]:
    """On the cluster: what the job returns, or why it returns nothing."""
    import traceback

    try:
        return {"done": job.work()}
    except FewtaskError as error:
        return {"failed": str(error)}
    except Exception:
        return {"failed": traceback.format_exc()}
