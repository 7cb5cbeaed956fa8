# SPDX-License-Identifier: Apache-2.0
"""A pipelined engine for world-action models, as a ROS 2 package."""

from pkgutil import extend_path

# The message generator installs a package of the same name: both folders are one package.
__path__ = extend_path(__path__, __name__)
__version__ = '0.1.0'
