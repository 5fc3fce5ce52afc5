// SPDX-License-Identifier: GPL-2.0
/* Each function has one caller: work, middle, outer, main. */
using System;
using System.Runtime.CompilerServices;

class Calls {
	static int[] numbers = new int[4096];

	[MethodImpl(MethodImplOptions.NoInlining)]
	static long work(int n)
	{
		long s = 1;

		for (int i = 0; i < n; i++)
			s = (s * 31 + numbers[i & 4095]) % 1000003;
		return s;
	}

	[MethodImpl(MethodImplOptions.NoInlining)]
	static long middle(int n) { return work(n) + work(n + 1); }

	[MethodImpl(MethodImplOptions.NoInlining)]
	static long outer(int n) { return middle(n) + middle(n + 2); }

	static void Main(string[] args)
	{
		int end = Environment.TickCount + 1000 * int.Parse(args[0]);
		long s = 0;

		while (Environment.TickCount < end)
			s += outer(1000);
		Console.WriteLine(s);
	}
}
