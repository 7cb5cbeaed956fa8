# SPDX-License-Identifier: Apache-2.0
# The environment of every process that `run` starts. Sourced with `root` (the source tree) and
# `venv` (what tools/prepare.py made) set; says nothing, starts nothing.

site="$(echo "$venv"/lib/python3.*/site-packages)"
messages="$(echo "$venv"/messages/lib/python3.*/site-packages)"
library_path="$venv/messages/lib"

if [ -z "${ROS_DISTRO:-}" ]; then
  # ROS from wheels. They would start every interpreter twice to set this path; done here, once.
  for folder in "$venv/lib" "$site"/ros_*.libs; do
    if [ -d "$folder" ]; then library_path="$library_path:$folder"; fi
  done
  export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1
  export RMW_IMPLEMENTATION=rmw_fastrtps_cpp
  export AMENT_PREFIX_PATH="$venv/messages:$venv"
  export PYTHONPATH="$root:$messages"
else
  # A sourced ROS 2: it stays as it is, ours comes before it.
  export RMW_IMPLEMENTATION="${RMW_IMPLEMENTATION:-rmw_fastrtps_cpp}"
  export AMENT_PREFIX_PATH="$venv/messages${AMENT_PREFIX_PATH:+:$AMENT_PREFIX_PATH}"
  export PYTHONPATH="$root:$messages${PYTHONPATH:+:$PYTHONPATH}"
fi
export LD_LIBRARY_PATH="$library_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH="$root/tools/bin:$venv/bin:$PATH"
export VIRTUAL_ENV="$venv"
export PYTHONNOUSERSITE=1

# Fast DDS 2 reads the first name, Fast DDS 3 the second; a profile of the user's own wins.
if [ -z "${FASTRTPS_DEFAULT_PROFILES_FILE:-}${FASTDDS_DEFAULT_PROFILES_FILE:-}" ]; then
  export FASTRTPS_DEFAULT_PROFILES_FILE="$root/config/fastdds.xml"
  export FASTDDS_DEFAULT_PROFILES_FILE="$root/config/fastdds.xml"
fi
export ROS_AUTOMATIC_DISCOVERY_RANGE="${ROS_AUTOMATIC_DISCOVERY_RANGE:-LOCALHOST}"

# Threads of two workers that spin at each other's barriers are 85 times slower than one.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export MUJOCO_GL="${MUJOCO_GL:-egl}"

unset site messages library_path folder
