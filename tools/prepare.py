# SPDX-License-Identifier: Apache-2.0
"""
Make the environment that ``run`` works in, or bring it up to date.

Called by ``run`` with a bare Python when its hash compare says that something changed. Two stages,
each redone only when what it is made from changed: the packages and the generated messages. The
mark of a stage is taken away before it starts and written when it is done, so that an environment
that was left half-made is recognised and made anew.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from steps import SetupError, Steps, digest, read, say, write_whole
from system import has_gpu, install_missing

# The wheels' CMake files name two folders of the machine that they were built on.
STALE_PYTHON = re.compile(r'/opt/python/cp\d+-cp\d+/include/python3\.\d+')
STALE_NUMPY = re.compile(
    r'/opt/python/cp\d+-cp\d+/lib/python[\d.]+/site-packages/numpy/_core/include'
)
INCLUDE_FOLDERS = """
import numpy, sysconfig
print(sysconfig.get_path('include'), numpy.get_include(), sep='\\n')
"""
USE_EVERYTHING = """
import importlib, sys
import cv2, mujoco, numpy, rclpy, torch
from rclpy.type_support import check_for_type_support
for name in sys.argv[1:]:
    folder, stem = name.split('/')
    module = importlib.import_module(f'physis_ros.{folder}')
    check_for_type_support(getattr(module, stem))
"""


class Environment:
    """
    One environment: the packages in ``venv``, the generated messages in ``venv/messages``.

    :param root: the source tree.
    :param venv: where the environment is, or will be.
    :param steps: runs the commands.
    """

    def __init__(self, root: Path, venv: Path, steps: Steps) -> None:
        self._root, self._venv, self._steps = root, venv, steps
        self._sourced = os.environ.get('ROS_DISTRO', '')
        self._lock = read(root / 'requirements.lock')
        self._python = venv / 'bin/python'

    def bring_up(self) -> None:
        """Redo what changed, then see that it works."""
        install_missing(self._steps)
        packages = digest(self._lock, sys.version, str(self._venv), self._sourced)
        self._stage('packages', packages, self._install)
        interfaces = sorted([*self._root.glob('msg/*.msg'), *self._root.glob('srv/*.srv')])
        texts = [f'{path.name}\n{read(path)}' for path in interfaces]
        texts.append(read(self._root / 'CMakeLists.txt'))
        self._stage('messages', digest(packages, *texts), self._build_messages)
        names = [f'{path.parent.name}/{path.stem}' for path in interfaces]
        self._try_out(names)

    def _stage(self, name: str, key: str, work: Callable[[], None]) -> None:
        """Do ``work`` unless it was done for ``key``."""
        mark = self._venv / f'{name}.key'
        if read(mark) != key or not self._python.exists():
            mark.unlink(missing_ok=True)
            work()
            write_whole(mark, key)

    def _install(self) -> None:
        """Make the virtual environment and install the locked packages."""
        shared = ['--system-site-packages'] if self._sourced else []
        self._steps.must(
            f'making {self._venv} with Python {sys.version.split()[0]}',
            [sys.executable, '-m', 'venv', '--clear', *shared, self._venv],
        )
        self._install_torch()
        wanted = lock_section(self._lock, 'run') + lock_section(self._lock, 'test')
        if not self._sourced:
            wanted += lock_section(self._lock, 'ros')
        elif self._runs('import numpy'):
            # ROS's own messages are compiled against the system's numpy: it stays.
            wanted = [line for line in wanted if not line.startswith('numpy==')]
        self._steps.must(f'installing {len(wanted)} packages', self._pip('--no-deps', *wanted))
        if not self._sourced:
            self._mend_include_paths()

    def _install_torch(self) -> None:
        """Install torch: with CUDA where a GPU answers, else the much smaller CPU build."""
        [torch] = lock_section(self._lock, 'torch')
        if has_gpu():
            self._steps.must('installing torch with CUDA', self._pip(torch))
            return
        if self._steps.attempt(
            'installing torch, CPU build', self._pip('--no-deps', f'{torch}+cpu')
        ):
            return
        # uv knows where the CPU builds are kept.
        uv: list[str | Path] = [self._venv / 'bin/uv', 'pip', 'install', '--python', self._python]
        if self._steps.attempt(
            'pip knows no CPU build; installing uv', self._pip('--no-deps', self._fallback('uv'))
        ) and self._steps.attempt(
            'installing torch, CPU build, with uv',
            [*uv, '--no-deps', '--torch-backend', 'cpu', torch],
        ):
            return
        self._steps.must('no CPU build found; installing torch as it comes', self._pip(torch))

    def _mend_include_paths(self) -> None:
        """Let the wheels' CMake files name this environment's include folders."""
        include, numpy = self._answer(INCLUDE_FOLDERS)
        for path in self._venv.glob('share/**/*.cmake'):
            text = path.read_text()
            mended = STALE_PYTHON.sub(lambda _: include, STALE_NUMPY.sub(lambda _: numpy, text))
            if mended != text:
                path.write_text(mended)

    def _build_messages(self) -> None:
        """Generate and build the messages beside their place, then put them there at once."""
        build, fresh = self._venv / 'messages.build', self._venv / 'messages.new'
        for folder in (build, fresh):
            shutil.rmtree(folder, ignore_errors=True)
        # CMake refuses include folders (the environment's numpy) that lie in the source tree.
        source = build / 'source'
        for kind in ('msg', 'srv'):
            if (self._root / kind).is_dir():
                shutil.copytree(self._root / kind, source / kind)
        for name in ('CMakeLists.txt', 'package.xml'):
            shutil.copy(self._root / name, source / name)
        tools = self._build_tools()
        paths = {'PATH': f'{self._venv / "bin"}{os.pathsep}{os.environ.get("PATH", os.defpath)}'}
        if not self._sourced:
            paths |= dict.fromkeys(('AMENT_PREFIX_PATH', 'CMAKE_PREFIX_PATH'), str(self._venv))
        configure: list[str | Path] = ['cmake', '-S', source, '-B', build, *tools, '-Wno-dev']
        configure += [f'-DPython3_EXECUTABLE={self._python}', f'-DCMAKE_INSTALL_PREFIX={fresh}']
        configure += ['-DPHYSIS_ROS_MESSAGES_ONLY=ON', '-DBUILD_TESTING=OFF']
        self._steps.must('configuring the messages', configure, **paths)
        jobs = str(len(os.sched_getaffinity(0)))
        self._steps.must(
            'building the messages', ['cmake', '--build', build, '--parallel', jobs], **paths
        )
        self._steps.must('installing the messages', ['cmake', '--install', build], **paths)
        shutil.rmtree(self._venv / 'messages', ignore_errors=True)
        fresh.rename(self._venv / 'messages')
        shutil.rmtree(build)

    def _build_tools(self) -> list[str]:
        """Let pip bring cmake and ninja where the system has none; return what cmake must know."""
        missing = [tool for tool in ('cmake', 'make') if shutil.which(tool) is None]
        if missing:
            brought = [self._fallback('cmake'), self._fallback('ninja')]
            self._steps.must('installing cmake and ninja', self._pip('--no-deps', *brought))
        ninja = bool(missing) or shutil.which('ninja') is not None
        return ['-G', 'Ninja' if ninja else 'Unix Makefiles']

    def _try_out(self, names: list[str]) -> None:
        """Load what will be used, as ``run`` would, so that a bad environment is told here."""
        script = f'. "$root/tools/environment.sh"; exec python -c "$0" {" ".join(names)}'
        self._steps.must(
            'trying it out',
            ['bash', '-euc', script, USE_EVERYTHING],
            root=str(self._root),
            venv=str(self._venv),
        )

    def _pip(self, *arguments: str) -> list[str | Path]:
        """Return the command that installs ``arguments``; pip's own settings say from where."""
        # Byte code is written when a module is first imported: most of torch never is.
        return [self._python, '-m', 'pip', 'install', '--no-compile', '--no-input', *arguments]

    def _fallback(self, name: str) -> str:
        """Return the locked requirement of a package that is needed only now and then."""
        section = lock_section(self._lock, 'fallback')
        return next(line for line in section if line.startswith(f'{name}=='))

    def _runs(self, code: str) -> bool:
        """Whether ``code`` runs in the environment."""
        done = subprocess.run([self._python, '-c', code], capture_output=True, check=False)
        return done.returncode == 0

    def _answer(self, code: str) -> list[str]:
        """Return the lines that ``code`` prints in the environment."""
        done = subprocess.run(
            [self._python, '-c', code], capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()


def lock_section(lock: str, name: str) -> list[str]:
    """Return the requirements in one section of the lock file, comments left out."""
    found: list[str] = []
    inside = False
    for line in lock.splitlines():
        if line.startswith('# section: '):
            inside = line.split()[2] == name
        elif inside and line and not line.startswith('#'):
            found.append(line)
    return found


def main(root: Path, venv: Path, key: str) -> None:
    """
    Bring the environment up; one at a time, the others wait and then find it done.

    :param key: what ``run`` compares next time.
    :raises SetupError: when it cannot be brought up.
    """
    if not os.access(root, os.W_OK):
        raise SetupError(f'{root} must be writable for the set-up; clone it where you may write')
    if os.pathsep in str(root):
        raise SetupError(f'the path of the source tree must not hold a colon, got {root}')
    with Path(f'{venv}.lock').open('w') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say('another set-up runs; waiting for it')
            fcntl.flock(lock, fcntl.LOCK_EX)
        if read(venv / 'prepared') == key:
            return
        (venv / 'prepared').unlink(missing_ok=True)
        Environment(root, venv, Steps(Path(f'{venv}.log'))).bring_up()
        write_whole(venv / 'prepared', key)
        say('the environment is ready')


if __name__ == '__main__':
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    except SetupError as error:
        sys.exit(f'run: {error}')
    except KeyboardInterrupt:
        sys.exit('run: set-up interrupted; the next start goes on from the last finished stage')
