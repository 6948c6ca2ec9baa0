#!/usr/bin/env python3
"""Tests of tools/tidy.py: every rule must catch what it is for, and let the rest pass."""

import unittest

import tidy


def findings(check, *arguments):
    return list(check(*arguments))


class Functions(unittest.TestCase):
    def lengths(self, text):
        return {name: lines for name, _, lines in tidy.functions(text)}

    def test_counts_from_signature_to_closing_brace(self):
        text = "namespace a {\nint f(int x) {\n  return x;\n}\n}\n"
        self.assertEqual(self.lengths(text), {"f": 3})

    def test_sees_constructors_with_brace_initialisers_as_one_function(self):
        text = "A::A(int x)\n    : x_{x}, y_{1} {\n  g();\n}\n"
        self.assertEqual(self.lengths(text), {"A::A": 4})

    def test_does_not_take_types_and_tables_for_functions(self):
        text = ("struct S : T<int> {\n int a = 1;\n};\nconstexpr int k[] = {\n1,\n2};\n"
                "enum class E {\nkA};\n")
        self.assertEqual(self.lengths(text), {})

    def test_ignores_braces_in_literals_and_comments(self):
        text = 'void f() {\n  g("}}", \'}\');  // }\n  /* } */\n  h(8\'000);\n}\n'
        self.assertEqual(self.lengths(text), {"f": 5})

    def test_counts_lambdas_as_part_of_their_function(self):
        text = "void f() {\n  g([](int x) {\n    h(x);\n  });\n}\n"
        self.assertEqual(self.lengths(text), {"f": 5})


class Lengths(unittest.TestCase):
    def body(self, lines):
        return "void f() {\n" + "  g();\n" * (lines - 2) + "}\n"

    def test_refuses_long_functions_and_files(self):
        files = {"a.cc": self.body(tidy.MAX_FUNCTION_LINES + 1), "b.cc": "\n" * 501}
        self.assertEqual(len(findings(tidy.check_lengths, files, {})), 2)

    def test_accepts_both_at_the_limit(self):
        files = {"a.cc": self.body(tidy.MAX_FUNCTION_LINES), "b.cc": "\n" * tidy.MAX_FILE_LINES}
        self.assertEqual(findings(tidy.check_lengths, files, {}), [])

    def test_an_exception_holds_only_at_its_exact_length(self):
        ratchet = {"files": {"b.cc": 510}}
        self.assertEqual(findings(tidy.check_lengths, {"b.cc": "\n" * 510}, ratchet), [])
        for lines in (505, 511):
            self.assertEqual(len(findings(tidy.check_lengths, {"b.cc": "\n" * lines}, ratchet)), 1)

    def test_an_exception_for_nothing_must_go(self):
        self.assertEqual(len(findings(tidy.check_lengths, {}, {"functions": {"a.cc:f": 80}})), 1)

    def test_exceptions_may_only_fall(self):
        before = {"files": {"b.cc": 510}}
        self.assertEqual(findings(tidy.check_ratchet, {"files": {"b.cc": 509}}, before), [])
        self.assertEqual(len(findings(tidy.check_ratchet, {"files": {"b.cc": 511}}, before)), 1)
        self.assertEqual(len(findings(tidy.check_ratchet, {"files": {"c.cc": 501}}, before)), 1)


class Words(unittest.TestCase):
    def banned(self, text, name="transport/a.cc"):
        return len(findings(tidy.check_words, {name: text}))

    def test_refuses_clocks_except_in_the_clock(self):
        self.assertEqual(self.banned("std::chrono::steady_clock::now();"), 1)
        self.assertEqual(self.banned("std::chrono::steady_clock::now();", "transport/clock.h"), 0)

    def test_refuses_global_randomness_but_not_names_ending_so(self):
        self.assertEqual(self.banned("x = rand();"), 1)
        self.assertEqual(self.banned("srand(1);"), 1)
        self.assertEqual(self.banned("operand(1); rng.rand(); integrand (2);"), 0)

    def test_refuses_shared_ownership_unfinished_work_and_machine_paths(self):
        self.assertEqual(self.banned("std::shared_ptr<int> p;"), 1)
        self.assertEqual(self.banned("// TODO later"), 1)
        self.assertEqual(self.banned("see /home/me/x", "README.md"), 1)
        self.assertEqual(self.banned("build/work/x and ../home/y", "README.md"), 0)


class Structure(unittest.TestCase):
    def test_refuses_relative_includes(self):
        self.assertEqual(len(findings(tidy.check_includes, {"a.cc": '#include "../b.h"\n'})), 1)
        self.assertEqual(findings(tidy.check_includes, {"a.cc": '#include "cc/b.h"\n'}), [])

    def test_every_source_is_built(self):
        files = {"cc/a.cc": "", "cc/CMakeLists.txt": "spindrift_library(cc SOURCES b.cc)"}
        self.assertEqual(len(findings(tidy.check_built, files)), 1)
        files["cc/CMakeLists.txt"] = "spindrift_library(cc SOURCES a.cc)"
        self.assertEqual(findings(tidy.check_built, files), [])

    def test_every_core_source_has_a_test(self):
        files = {"cc/a_b.cc": "", "tools/x.cc": ""}
        self.assertEqual(len(findings(tidy.check_tested, files, {})), 1)
        self.assertEqual(findings(tidy.check_tested, files, {"cc/a_b.cc": "why"}), [])
        files["tests/cc/t.cc"] = '#include "cc/a_b.h"\n'
        self.assertEqual(findings(tidy.check_tested, files, {}), [])

    def test_a_source_is_tested_by_a_test_of_its_name_or_one_that_uses_what_it_defines(self):
        for test in ({"tests/cc/a_b_test.cc": ""}, {"tests/cc/t.cc": "make(kABThing)"},
                     {"tests/cc/t.cc": 'find("a_b")'}):
            self.assertEqual(findings(tidy.check_tested, {"cc/a_b.cc": "", **test}, {}), [])
        other = {"cc/a_b.cc": "", "tests/cc/a_test.cc": "a_bc"}
        self.assertEqual(len(findings(tidy.check_tested, other, {})), 1)

    def test_an_untested_entry_for_nothing_must_go(self):
        self.assertEqual(len(findings(tidy.check_tested, {}, {"cc/gone.cc": "why"})), 1)


if __name__ == "__main__":
    unittest.main()
