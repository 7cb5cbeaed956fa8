# SPDX-License-Identifier: Apache-2.0
"""
What set-up needs of the operating system, and how to get it where that is allowed.

Knows Debian and Ubuntu; elsewhere it names what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from steps import SetupError, Steps, say

# Each tool, and the package that has it.
TOOLS = {'g++': 'g++', 'cmake': 'cmake', 'make': 'make'}
# What pip brings as well.
FROM_PIP = {'cmake', 'make'}
EGL_PACKAGES = ('libegl1', 'libegl-mesa0', 'libgl1', 'libgl1-mesa-dri', 'libopengl0')


def apt_get() -> list[str] | None:
    """Return the words that call apt-get with enough rights; None where that cannot be."""
    if shutil.which('apt-get') is None:
        return None
    if os.geteuid() == 0:
        return ['apt-get']
    if shutil.which('sudo') and _succeeds('sudo', '-n', 'true'):
        return ['sudo', '-n', 'DEBIAN_FRONTEND=noninteractive', 'apt-get']
    return None


def missing_packages() -> list[str]:
    """Return the system packages that are needed and not there."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if not Path(sysconfig.get_path('include'), 'Python.h').is_file():
        missing.append('python3-dev')
    if not _succeeds(sys.executable, '-I', '-c', 'import venv, ensurepip'):
        missing.append('python3-venv')
    if not has_egl():
        missing.extend(EGL_PACKAGES)
    return missing


def has_egl() -> bool:
    """Whether there are an EGL library and a driver for it: rendering without a display."""
    path = f'/sbin:/usr/sbin:{os.environ.get("PATH", "")}'
    ldconfig = shutil.which('ldconfig', path=path)
    if ldconfig is None:
        return True
    listed = subprocess.run([ldconfig, '-p'], capture_output=True, text=True, check=False).stdout
    folders = [Path(root, 'glvnd/egl_vendor.d') for root in ('/usr/share', '/etc')]
    drivers = [driver for folder in folders for driver in folder.glob('*.json')]
    return 'libEGL.so.1' in listed and bool(drivers)


def has_gpu() -> bool:
    """Whether an NVIDIA GPU answers."""
    return shutil.which('nvidia-smi') is not None and _succeeds('nvidia-smi')


def install_missing(steps: Steps) -> None:
    """
    Install the system packages that are missing, where that is allowed.

    :raises SetupError: naming what has to be installed by hand.
    """
    missing = missing_packages()
    words = apt_get()
    if missing and words is not None:
        title = f'installing system packages: {" ".join(missing)}'
        quiet = {'DEBIAN_FRONTEND': 'noninteractive'}
        steps.attempt('asking for the list of system packages', [*words, 'update'], **quiet)
        steps.attempt(
            title, [*words, 'install', '-y', '--no-install-recommends', *missing], **quiet
        )
        missing = missing_packages()
    _complain([package for package in missing if package not in FROM_PIP])


def _complain(missing: list[str]) -> None:
    """Name what is missing: without a compiler nothing works, without EGL only no camera does."""
    if not missing:
        return
    command = f'sudo apt-get install {" ".join(missing)}'
    text = f'system packages are missing; install them and start again: {command}'
    if not set(missing) <= set(EGL_PACKAGES):
        raise SetupError(text)
    say(f'warning: the simulated camera cannot render: {text}')


def _succeeds(*command: str) -> bool:
    """Whether a command ends well; its output is dropped."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0
