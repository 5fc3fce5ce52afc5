// SPDX-License-Identifier: GPL-2.0
// Each function has one caller: work, middle, outer, main.
'use strict';
const numbers = new Int32Array(4096);

function work(n) {
	let s = 1;
	for (let i = 0; i < n; i++)
		s = (s * 31 + numbers[i & 4095]) % 1000003;
	return s;
}

function middle(n) {
	return work(n) + work(n + 1);
}

function outer(n) {
	return middle(n) + middle(n + 2);
}

function main() {
	const end = Date.now() + Number(process.argv[2]) * 1000;
	let s = 0;
	while (Date.now() < end)
		s += outer(1000);
	console.log(s);
}
main();
