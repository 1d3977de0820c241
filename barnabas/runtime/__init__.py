"""The ports to the world (time, tasks, disk, network, offload) and their real side. Imports nothing of ours."""
