# SPDX-License-Identifier: GPL-2.0
# nested.py [FILE] - functions that call each other, for ever; with FILE in a child,
# whose number goes there
import os
import sys
import time


def inner(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total


def middle(n):
    return inner(n)


def outer(n):
    return middle(n)


def work():
    while True:
        outer(20000)


def with_child(file):
    child = os.fork()
    if child:
        with open(file, 'w') as out:
            print(child, file=out)
        time.sleep(1000)
    work()


if len(sys.argv) > 1:
    with_child(sys.argv[1])
work()
