#!/usr/bin/env python3
"""`spindrift coll` under the launchers that people have: mpirun (Open MPI and MPICH), srun, torchrun,
plain variables, a shared file.  launchers_e2e_test.py TOOL [-k PATTERN]"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import private_slurm

TOOL = sys.argv.pop(1)
SIZES = ["-b", "1K", "-e", "64K", "-f", "8", "-n", "2"]
OPEN_MPI = ["mpirun.openmpi", "--oversubscribe"]
MPICH = ["mpirun.mpich"]
# Open MPI asks root twice; outside a container that is good advice.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
LAUNCHER_VARIABLES = re.compile("OMPI_|PMI|SLURM_|MPI_|HYDI|RANK$|WORLD_SIZE$|MASTER_|LOCAL_|SPINDRIFT_")


def environment(**more):
    own = {name: value for name, value in os.environ.items() if not LAUNCHER_VARIABLES.match(name)}
    return dict(own, **AS_ROOT, **more)


def need(program):
    return unittest.skipIf(shutil.which(program) is None, f"{program} is not installed")


class Launchers(unittest.TestCase):
    def run_all(self, command, env=None, timeout=60):
        done = subprocess.run(command, env=env or environment(), timeout=timeout, text=True,
                              capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def expect_one_right_table(self, outcome, ranks):
        code, out, errors = outcome
        self.assertEqual(code, 0, out + errors)
        self.assertEqual(out.count("# Out of bounds values : 0 OK"), 1, out)
        self.assertEqual(len(re.findall(r"^#  Rank ", out, re.MULTILINE)), ranks, out)
        self.assertEqual(len(re.findall(r"^ +65536 ", out, re.MULTILINE)), 1, out)

    def expect_one_usage_error(self, outcome, sentence):
        code, out, errors = outcome
        self.assertNotEqual(code, 0)
        self.assertEqual(out.count("#  Rank"), 0, out)
        self.assertEqual(errors.count("spindrift coll: " + sentence), 1, errors)

    def under_mpi(self, launcher):
        self.expect_one_right_table(self.run_all([*launcher, "-n", "4", TOOL, "coll", "allreduce", *SIZES]), 4)

    def a_missing_rank_is_named(self, launcher):
        # Rank 2 starts, and then does something else.
        script = 'if [ "${PMIX_RANK:-$PMI_RANK}" = 2 ]; then exec sleep 4; fi; exec "$@"'
        start = time.monotonic()
        code, out, errors = self.run_all([*launcher, "-n", "3", "bash", "-c", script, "bash", TOOL, "coll",
                                          "allreduce", "--timeout", "1"])
        self.assertLess(time.monotonic() - start, 25)
        self.assertNotEqual(code, 0, out)
        self.assertRegex(errors, r"rank [01] waited 1\.0 s for rank 2 of 3")

    @need("mpirun.openmpi")
    def test_open_mpi(self):
        self.under_mpi(OPEN_MPI)

    @need("mpirun.mpich")
    def test_mpich(self):
        self.under_mpi(MPICH)

    @need("mpirun.openmpi")
    def test_open_mpi_names_a_missing_rank(self):
        self.a_missing_rank_is_named(OPEN_MPI)

    @need("mpirun.mpich")
    def test_mpich_names_a_missing_rank(self):
        self.a_missing_rank_is_named(MPICH)

    @need("mpirun.mpich")
    def test_rank_0_alone_says_what_is_wrong_with_the_arguments(self):
        self.expect_one_usage_error(self.run_all([*MPICH, "-n", "2", TOOL, "coll", "allreduce", "--cc", "nobody"]),
                                    "there is no congestion control")
        self.expect_one_usage_error(self.run_all([*MPICH, "-n", "2", TOOL, "coll", "allreduce", "--ranks", "3"]),
                                    "--ranks 3, but PMI-1 started 2 ranks")

    @need("mpirun.mpich")
    def test_ranks_of_a_launcher_may_be_ignored(self):
        self.expect_one_right_table(
            self.run_all([*MPICH, "-n", "1", TOOL, "coll", "allreduce", "--ranks", "2", *SIZES],
                         environment(SPINDRIFT_LAUNCHER="none")), 2)

    @unittest.skipIf(private_slurm.missing_programs(), "Slurm is not installed")
    def test_slurm(self):
        with private_slurm.PrivateSlurm() as slurm:
            env = environment(SLURM_CONF=slurm.environment["SLURM_CONF"])
            outcome = self.run_all(["srun", "-n", "4", TOOL, "coll", "allreduce", *SIZES], env)
            self.assertEqual(outcome[0], 0, outcome[2] + slurm.logs())
            self.expect_one_right_table(outcome, 4)
            script = 'if [ "$SLURM_PROCID" = 1 ]; then exec sleep 30; fi; exec "$@"'
            code, _, errors = self.run_all(["srun", "--kill-on-bad-exit=1", "-n", "3", "bash", "-c", script, "bash",
                                            TOOL, "coll", "allreduce", "--timeout", "1"], env)
            self.assertNotEqual(code, 0)
            self.assertRegex(errors, r"waited 1\.0 s for rank 1 of 3")

    def together(self, commands):
        started = [subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for command, env in commands]
        try:
            ended = [process.communicate(timeout=60) for process in started]
        finally:
            for process in started:
                process.send_signal(signal.SIGKILL)
        return (max(abs(process.returncode) for process in started), "".join(out for out, _ in ended),
                "".join(errors for _, errors in ended))

    def test_plain_variables(self):
        port = str(private_slurm.free_port())
        self.expect_one_right_table(self.together([
            ([TOOL, "coll", "allreduce", *SIZES],
             environment(RANK=str(rank), WORLD_SIZE="3", MASTER_ADDR="localhost", MASTER_PORT=port))
            for rank in (2, 1, 0)]), 3)

    def test_a_shared_file(self):
        with tempfile.TemporaryDirectory() as folder:
            place = f"file://{folder}/meeting"
            self.expect_one_right_table(self.together([
                ([TOOL, "coll", "allreduce", "--rank", str(rank), "--ranks", "3", "--rendezvous", place, *SIZES],
                 environment()) for rank in (1, 0, 2)]), 3)
            self.assertEqual(os.listdir(folder), [])

    @need("torchrun")
    def test_torchrun(self):
        # Debian's torchrun of Python 3.11 fails without the two options about output.
        with tempfile.TemporaryDirectory() as folder:
            code, _, errors = self.run_all(
                ["torchrun", "--redirects", "1", "--tee", "1", "--log_dir", folder, "--no_python",
                 "--nproc_per_node", "2", "--master_port", str(private_slurm.free_port()),
                 "bash", "-c", 'exec "$@" >&2', "bash", TOOL, "coll", "allreduce", *SIZES])
            self.expect_one_right_table((code, errors, errors), 2)


if __name__ == "__main__":
    unittest.main()
