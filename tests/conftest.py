"""Lets every test import `strategies`: pytest puts this folder on the path because this file stands in it."""
