"""Grades by a language model that cannot know what it grades for, and the measured worth of those grades."""
