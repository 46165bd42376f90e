/* say.c - errors of one line, and numbers that can be read. */
#include "cli/say.h"

#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_COUNT 8u
#define BUFFER_BYTES 32u

static void say_line(const char *format, va_list values) __attribute__((format(printf, 1, 0)));
static void say_line(const char *format, va_list values)
{
    fflush(stdout);
    fputs("incipit: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
}

int icp_say_failure(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say_line(format, values);
    va_end(values);
    return ICP_EXIT_FAILED;
}

int icp_say_usage(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say_line(format, values);
    va_end(values);
    return ICP_EXIT_USAGE;
}

int icp_say_end(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return ICP_EXIT_OK;
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    bool is_reader_gone = poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
    return is_reader_gone ? ICP_EXIT_FAILED : icp_say_failure("standard output cannot be written: is the disk full?");
}

bool icp_say_is_terminal(FILE *stream)
{
    return isatty(fileno(stream)) == 1;
}

static char *next_buffer(void)
{
    static char buffers[BUFFER_COUNT][BUFFER_BYTES];
    static unsigned next;
    return buffers[next++ % BUFFER_COUNT];
}

const char *icp_say_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    char *text = next_buffer();
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 1024.0 && unit + 1 < sizeof(units) / sizeof(units[0])) value /= 1024.0, unit++;
    int digits = unit == 0 || value >= 100.0 ? 0 : value >= 10.0 ? 1 : 2;
    snprintf(text, BUFFER_BYTES, "%.*f %s", digits, value, units[unit]);
    return text;
}

const char *icp_say_count(uint64_t count)
{
    char digits[24];
    char *text = next_buffer();
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    size_t at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

const char *icp_say_short(uint64_t count)
{
    char *text = next_buffer();
    if (count >= 1000000000u)
        snprintf(text, BUFFER_BYTES, "%.2f B", (double)count / 1e9);
    else if (count >= 1000000u)
        snprintf(text, BUFFER_BYTES, "%.1f M", (double)count / 1e6);
    else if (count >= 1000u)
        snprintf(text, BUFFER_BYTES, "%.1f K", (double)count / 1e3);
    else
        snprintf(text, BUFFER_BYTES, "%llu", (unsigned long long)count);
    return text;
}

size_t icp_say_character(const char *text, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)text;
    if (bytes == 0) return 0;
    if (at[0] < 0x80) return 1;
    size_t length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || length > bytes) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
    }
    /* Too long a form, a surrogate, or past the last character. */
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f)) return 0;
    if ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f)) return 0;
    return length;
}

void icp_say_visible(FILE *stream, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        unsigned char c = (unsigned char)text[i];
        size_t length = icp_say_character(text + i, bytes - i);
        bool is_control = c < 0x20 || c == 0x7f || (c == 0xc2 && length == 2 && (unsigned char)text[i + 1] < 0xa0);
        if (c == '\n')
            fputs("\\n", stream);
        else if (c == '\t')
            fputs("\\t", stream);
        else if (length == 0 || is_control)
            fprintf(stream, "\\x%02x", c);
        else
            fwrite(text + i, 1, length, stream);
        i += length == 0 || is_control ? 1 : length;
    }
}

double icp_say_clock(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}
