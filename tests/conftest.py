"""Lets every test import `strategies`: pytest puts this folder on the path because this file stands in it."""


def pytest_addoption(parser):
    parser.addoption("--bless", action="store_true", help="write golden files anew from what is found")
