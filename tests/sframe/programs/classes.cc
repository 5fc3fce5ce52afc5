// SPDX-License-Identifier: GPL-2.0
// Exceptions, virtual calls, templates, aligned locals
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

struct shape {
	virtual ~shape() = default;
	virtual double area() const = 0;
};

template <int N> struct box : shape {
	alignas(64) double side[N];

	box() { std::fill(side, side + N, N); }
	double area() const override
	{
		alignas(64) volatile double sum = 0;

		for (double s : side)
			sum = sum + s;
		return sum;
	}
};

static double risky(const shape &s, int depth)
{
	if (!depth)
		throw std::runtime_error("bottom " + std::to_string(s.area()));
	try {
		return risky(s, depth - 1) + s.area();
	} catch (std::logic_error &) {
		return 0;
	}
}

int main()
{
	std::map<std::string, std::unique_ptr<shape>> shapes;
	std::function<double(const shape &)> f = [](const shape &s) {
		return s.area();
	};
	std::ostringstream out;
	double total = 0;

	shapes["one"] = std::make_unique<box<1>>();
	shapes["nine"] = std::make_unique<box<9>>();
	for (auto &s : shapes) {
		total += f(*s.second);
		try {
			risky(*s.second, 5);
		} catch (std::exception &e) {
			out << e.what() << '\n';
		}
	}
	if (!std::regex_search(out.str(), std::regex("bottom [0-9.]+")))
		return 1;
	std::cout << total << '\n';
	return 0;
}
