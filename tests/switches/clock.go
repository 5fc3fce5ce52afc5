// SPDX-License-Identifier: GPL-2.0

// clock asks for the time, which the runtime does on the stack of g0.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

//go:noinline
func ask(depth int) int64 {
	if depth > 0 {
		return ask(depth-1) + 1
	}
	var sum int64
	for i := 0; i < 1000; i++ {
		sum += time.Now().UnixNano() & 1
	}
	return sum
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	until := time.Now().Add(time.Duration(seconds * 1e9))
	var sum int64
	for time.Now().Before(until) {
		sum += ask(5)
	}
	if sum == 42 {
		fmt.Println("?")
	}
}
