-- SPDX-License-Identifier: GPL-2.0
-- Each function has one caller: work, middle, outer, main.
local function work(n)
	local s = 1
	for i = 1, n do
		s = (s * 31 + i) % 1000003
	end
	return s
end

local function middle(n)
	return work(n) + work(n + 1)
end

local function outer(n)
	return middle(n) + middle(n + 2)
end

local function main(seconds)
	local finish, s = os.clock() + seconds, 0
	while os.clock() < finish do
		s = s + outer(1000)
	end
	print(s)
end
main(tonumber(arg[1]))
