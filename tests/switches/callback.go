// SPDX-License-Identifier: GPL-2.0

// callback calls C, which calls back.
package main

/*
#cgo CFLAGS: -O2 -fomit-frame-pointer
#include <stdint.h>
static int compare(const void *a, const void *b);
extern int goCompare(int, int);
#include <stdlib.h>
static int compare(const void *a, const void *b)
{
	return goCompare(*(const int *)a, *(const int *)b);
}
static int work(int n)
{
	int numbers[400];
	unsigned int seed = 20000;

	for (int i = 0; i < 400; i++)
		numbers[i] = rand_r(&seed) % n;
	qsort(numbers, 400, sizeof(numbers[0]), compare);
	return numbers[0];
}
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

//export goCompare
func goCompare(a, b C.int) C.int {
	var sum C.int
	for i := C.int(0); i < 200; i++ {
		sum += i * (a ^ b) & 3
	}
	if sum == 20000 {
		fmt.Println("?")
	}
	return a - b
}

//go:noinline
func sorts(depth int) int {
	if depth > 0 {
		return sorts(depth-1) + 1
	}
	return int(C.work(20000))
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	until := time.Now().Add(time.Duration(seconds * 1e9))
	sum := 0
	for time.Now().Before(until) {
		sum += sorts(5)
	}
	if sum == 42 {
		fmt.Println("?")
	}
}
