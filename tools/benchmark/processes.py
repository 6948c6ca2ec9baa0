"""Programs as a benchmark runs them: bound to a processor, their processor time counted, none left
behind."""

import atexit
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SENDER_CPU = 0
RECEIVER_CPU = 1


class Failed(Exception):
    """A program did not do what it was run for; the text is what it said."""


class Unavailable(Exception):
    """This machine cannot do it; the text says why, and what would help."""


def require(program, package):
    if shutil.which(program) is None:
        raise Unavailable(f"there is no {program} here; it is in Debian's {package}")


_running = []


def _kill_the_rest():
    for program in list(_running):
        program.kill()


atexit.register(_kill_the_rest)


class Program:
    """One process. Where there is one processor only, nothing is bound."""

    def __init__(self, words, cpu=None, environment=None):
        self.words = [str(word) for word in words]
        if cpu is not None and (os.cpu_count() or 1) > cpu:
            self.words = ["taskset", "-c", str(cpu)] + self.words
        self._out = tempfile.TemporaryFile()
        self._err = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=self._out,
                                        stderr=self._err,
                                        env={**os.environ, **(environment or {})})
        self.pid = self.process.pid
        self.cpu_seconds = 0.0  # these three: once it has ended
        self.output = ""
        self.errors = ""
        _running.append(self)

    def wait(self, patience_s):
        """Standard output. Raises Failed when the exit code is not zero."""
        descriptor = os.pidfd_open(self.pid)
        try:
            if not select.select([descriptor], [], [], patience_s)[0]:
                self.kill()
                raise Failed(f"{self._name()} was not done after {patience_s:.0f} s")
        finally:
            os.close(descriptor)
        code = self._reap()
        if code != 0:
            raise Failed(f"{self._name()} ended with {code}: {self.complaint()}")
        return self.output

    def complaint(self):
        """The last thing it said; once it has ended."""
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        return lines[-1] if lines else "it said nothing"

    def is_running(self):
        # Left unreaped, so that its processor time can still be read.
        return self in _running and os.waitid(
            os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def await_output(self, text, patience_s):
        """Until it has said so."""
        give_up = time.monotonic() + patience_s
        while text.encode() not in os.pread(self._out.fileno(), 65536, 0):
            if not self.is_running():
                self.wait(1)
                raise Failed(f"{self._name()} ended before it said '{text}'")
            if time.monotonic() > give_up:
                self.kill()
                raise Failed(f"{self._name()} did not say '{text}': {self.complaint()}")
            time.sleep(0.005)

    def kill(self):
        if self in _running:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()

    def _reap(self):
        _, status, usage = os.wait4(self.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        self.output, self.errors = self._text(self._out), self._text(self._err)
        _running.remove(self)
        return self.process.returncode

    def _name(self):
        return " ".join(self.words)

    @staticmethod
    def _text(file):
        with file:
            file.seek(0)
            return file.read().decode(errors="replace")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def has_socket(pid, port):
    """Whether somebody in the network namespace of `pid` listens at this port, TCP or UDP."""
    wanted = f":{port:04X}"
    for kind, states in (("tcp", {"0A"}), ("tcp6", {"0A"}), ("udp", {"07"}), ("udp6", {"07"})):
        try:
            lines = pathlib.Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] in states:
                return True
    return False


def await_socket(program, port, patience_s=20):
    give_up = time.monotonic() + patience_s
    while not has_socket(program.pid, port):
        if not program.is_running():
            program.wait(1)
            raise Failed(f"{' '.join(program.words)} ended before it listened")
        if time.monotonic() > give_up:
            program.kill()
            raise Failed(f"{' '.join(program.words)} did not listen: {program.complaint()}")
        time.sleep(0.005)


def run(words, patience_s=60):
    """For set-up: Unavailable when it fails."""
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              timeout=patience_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(f"'{' '.join(map(str, words))}' failed: {said[-1] if said else ''}")
    return done.stdout
