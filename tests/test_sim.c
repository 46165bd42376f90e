/* test_sim.c - the simulation (sim.h), for so many steps.
 *
 *     STEPS=100000000 SEED=1 make sim      RUN=17 does world 17 of that seed alone
 *
 * Worlds that once failed are tests of their own below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define SEED_DEFAULT 1u
#define STEPS_DEFAULT 100000u
#define WORLD_STEPS 300u
#define PROGRESS_STEPS 1000000u

static sim world;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 0);
}

static void say_where(void)
{
    (void)fprintf(stderr, "world %" PRIu64 " (SEED=0 RUN=%" PRIu64 "), step %" PRIu64 ": %s\n", world.seed, world.seed,
                  world.step, world.error);
}

static void say_and_die(int signal_number)
{
    say_where();
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

static void run_one(uint64_t seed)
{
    if (sim_run(&world, seed, WORLD_STEPS)) return;
    say_where();
    fail_msg("%s", world.error);
}

static void every_request_gives_what_it_gives_alone_without_a_cache(void **state)
{
    (void)state;
    uint64_t seed = setting("SEED", SEED_DEFAULT);
    uint64_t only = setting("RUN", UINT64_MAX);
    uint64_t step_count = setting("STEPS", STEPS_DEFAULT);
    print_message("seed %" PRIu64 "\n", seed);
    (void)signal(SIGABRT, say_and_die);
    (void)signal(SIGSEGV, say_and_die);
    if (only != UINT64_MAX) run_one(seed * 1000003u + only);
    uint64_t told = 0;
    for (uint64_t i = 0; only == UINT64_MAX && world.step_count < step_count; i++) {
        run_one(seed * 1000003u + i);
        if (world.step_count - told < PROGRESS_STEPS) continue;
        told = world.step_count;
        print_message("%" PRIu64 " steps, %" PRIu64 " worlds\n", told, i + 1);
    }
    print_message("%" PRIu64 " steps in %" PRIu64 " worlds: %" PRIu64 " requests, %" PRIu64 " branches, %" PRIu64
                  " tokens out, %" PRIu64 " computed, %" PRIu64 " cached, %" PRIu64 " preempted, %" PRIu64
                  " cancelled, %" PRIu64 " steps failed\n",
                  world.step_count, world.world_count, world.job_count, world.branch_count, world.token_count,
                  world.computed_count, world.cached_count, world.preempted_count, world.cancelled_count,
                  world.failed_count);
    if (only == UINT64_MAX && step_count >= STEPS_DEFAULT) { /* it reached what it is for */
        assert_true(world.cached_count > 0 && world.preempted_count > 0);
        assert_true(world.cancelled_count > 0 && world.failed_count > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_gives_what_it_gives_alone_without_a_cache),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
