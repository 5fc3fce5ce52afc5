<?php
// SPDX-License-Identifier: GPL-2.0
// Each function has one caller: work, middle, outer, main.
function work(int $n): int
{
	$s = 1;
	for ($i = 0; $i < $n; $i++)
		$s = ($s * 31 + $i) % 1000003;
	return $s;
}

function middle(int $n): int
{
	return work($n) + work($n + 1);
}

function outer(int $n): int
{
	return middle($n) + middle($n + 2);
}

function main(float $seconds): void
{
	$end = microtime(true) + $seconds;
	$s = 0;
	while (microtime(true) < $end)
		$s += outer(1000);
	echo $s, "\n";
}
main((float)$argv[1]);
