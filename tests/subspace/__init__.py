"""Tests of the eigenspace learners."""
