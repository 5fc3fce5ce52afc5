// SPDX-License-Identifier: GPL-2.0
/* Each function has one caller: work, middle, outer, main. */
public class Calls {
	static int[] numbers = new int[4096];

	static long work(int n) {
		long s = 1;

		for (int i = 0; i < n; i++)
			s = (s * 31 + numbers[i & 4095]) % 1000003;
		return s;
	}

	static long middle(int n) {
		return work(n) + work(n + 1);
	}

	static long outer(int n) {
		return middle(n) + middle(n + 2);
	}

	public static void main(String[] args) {
		long end = System.nanoTime() + (long)(Double.parseDouble(args[0]) * 1e9), s = 0;

		while (System.nanoTime() < end)
			s += outer(1000);
		System.out.println(s);
	}
}
