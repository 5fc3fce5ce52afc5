%% SPDX-License-Identifier: GPL-2.0
%% Each function has one caller: work, middle, outer, main.
-module(calls).
-export([main/1]).

work(0, S) -> S;
work(N, S) -> work(N - 1, (S * 31 + N) rem 1000003).

middle(N) -> work(N, 1) + work(N + 1, 1).

outer(N) -> middle(N) + middle(N + 2).

loop(End, S) ->
	case erlang:monotonic_time(millisecond) < End of
		true -> loop(End, S + outer(1000));
		false -> S
	end.

main([Seconds]) ->
	End = erlang:monotonic_time(millisecond) + 1000 * list_to_integer(atom_to_list(Seconds)),
	io:format("~p~n", [loop(End, 0)]),
	halt().
