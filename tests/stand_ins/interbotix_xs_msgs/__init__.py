"""Stands in for the ROS package of this name."""
