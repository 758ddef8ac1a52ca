"""The papers' tables and figures: each module is a program that prints one."""
