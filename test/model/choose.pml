/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Nondeterministic choice of an index for which a condition holds, into `pick`. As a guard it can be passed if there is
 * one. Written out, because Promela has no such loop that could be a guard. */
#define IF(i, is) :: is(i) -> pick = i
#define IF_1(is) IF(0, is)
#define IF_2(is) IF_1(is) IF(1, is)
#define IF_3(is) IF_2(is) IF(2, is)
#define IF_4(is) IF_3(is) IF(3, is)
#define IF_5(is) IF_4(is) IF(4, is)
#define IF_6(is) IF_5(is) IF(5, is)
#define IF_7(is) IF_6(is) IF(6, is)
#define IF_8(is) IF_7(is) IF(7, is)
#define IF_9(is) IF_8(is) IF(8, is)
#define IF_10(is) IF_9(is) IF(9, is)
#define IF_11(is) IF_10(is) IF(10, is)
#define IF_12(is) IF_11(is) IF(11, is)
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

#define CHOOSE(many, is) \
    if \
    JOIN(IF_, many)(is) \
    fi
