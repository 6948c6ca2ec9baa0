"""A Slurm cluster of this host alone, in a folder of its own, for the time of a `with` block."""

import getpass
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")
CONFIGURATION = """
ClusterName=spindrift{pid}
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={daemon_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing_programs():
    return [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class PrivateSlurm:
    """`environment` is what srun needs to find the cluster."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-"))
        self.folder.chmod(0o755)
        self.daemons = []
        host = socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        (self.folder / "cgroup.conf").write_text("")
        configuration = self.folder / "slurm.conf"
        configuration.write_text(CONFIGURATION.format(
            pid=os.getpid(), host=host, user=getpass.getuser(), folder=self.folder,
            controller_port=free_port(), daemon_port=free_port()))
        self.environment = dict(os.environ, SLURM_CONF=str(configuration), PATH=search_path())
        munge = {name: f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "log", "seed")}
        self.start("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket",
                   *munge.values())
        while not (self.folder / "munge.socket").exists():
            if self.daemons[0].poll() is not None:
                raise RuntimeError("munged does not start: " + self.logs())
            time.sleep(0.02)
        self.start("slurmctld", "-D", "-i")
        self.start("slurmd", "-D", "-N", host)
        return self

    def start(self, name, *arguments):
        with open(self.folder / f"{name}.out", "w", encoding="utf-8") as out:
            self.daemons.append(subprocess.Popen([shutil.which(name, path=search_path()), *arguments],
                                                 env=self.environment, stdout=out, stderr=out))

    def logs(self):
        return "\n".join(f"{path.name}:\n{path.read_text(errors='replace')[-2000:]}"
                         for path in sorted(self.folder.glob("*.out")))

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
