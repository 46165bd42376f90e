/* say.h - what the program tells people: errors, and numbers that can be read.
 *
 * Answers go to standard output, everything about them to standard error. An error is one line, "incipit: what is
 * wrong: what to do", and gives the exit status that main returns. */
#ifndef ICP_CLI_SAY_H
#define ICP_CLI_SAY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses: documented in the manual page. */
enum { ICP_EXIT_OK = 0, ICP_EXIT_FAILED = 1, ICP_EXIT_USAGE = 2 };

/* One line on standard error; returns ICP_EXIT_FAILED, ICP_EXIT_USAGE. */
int icp_say_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));
int icp_say_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The end of what went to standard output: ICP_EXIT_OK, or ICP_EXIT_FAILED where it could not be written, with a word
 * about it unless the reader simply went away. */
int icp_say_end(void);

bool icp_say_is_terminal(FILE *stream);

/* Text for people, in one of a few buffers that are used in turn: "1.23 GiB", "17,308,800", "1.24 B". */
const char *icp_say_bytes(uint64_t bytes);
const char *icp_say_count(uint64_t count);
const char *icp_say_short(uint64_t count);

/* Writes bytes so that a terminal shows them and nothing else: control characters and what is not UTF-8 as \xNN, line
 * feeds as \n. */
void icp_say_visible(FILE *stream, const char *text, size_t bytes);

/* Bytes of the text's first character; 0: it is not UTF-8 there. */
size_t icp_say_character(const char *text, size_t bytes);

/* Seconds of a clock that only goes forward. */
double icp_say_clock(void);

#endif
