# Makefile - builds libincipit, the program incipit, examples, tests, benchmarks and tools.
#
# make                  the program, the libraries and the examples, in build/release
# make run              builds the program, then talks with the built-in model: incipit chat
# make demo             the cache alone, at work: examples/demo.c
# make test             every check of the project; its last line is "N passed, M failed, K skipped"
# make test T=tree      tests/test_tree.c alone, in build/debug, or in the configuration that SAN names
# make fuzz             tests/test_fuzz.c for OPS=100000000 operations
# make sim              tests/test_sim.c for STEPS=100000000 steps
# make libfuzzer        tests/fuzz_*.c under libFuzzer (clang), SECONDS=60 each; make fuzz-build only builds them
# make valgrind         the C tests under memcheck
# make bench            all benchmarks: bench-cache, bench-matrix and bench-engine; figures go to build/bench/
# make tidy layers headers   the rules of the source text, of its layers, and that each header compiles alone
# make amalgamation     libincipit as two files, build/amalgamation/incipit.c and incipit.h
# make man              writes man/incipit.1 from the program's tables
# make install          program, completions, headers, libraries, .pc files, man pages; make uninstall removes them
# make format           lays the C files out with clang-format
# make clean help
#
# DEBUG=1               build/debug: -O1, ICP_DEBUG
# SAN=address,undefined build/asan; SAN=thread: build/tsan; both with ICP_DEBUG
# CC=clang CXX=clang++  another compiler; a change of flags rebuilds what it touches
# OPT=-O3               optimisation of the release build [-O2]
# WERROR=               warnings do not stop the build
# V=1                   shows the commands
# PREFIX=/usr DESTDIR=/tmp/root LIBDIR=... MANDIR=...   where install puts things [PREFIX=/usr/local]
# OPS=n STEPS=n SEED=n  length and seed of the fuzz test and of the simulation, which read the environment themselves

SAN     ?=
DEBUG   ?=
OPT     ?= -O2
WERROR  ?= -Werror
OPS     ?= 100000000
STEPS   ?= 100000000
SECONDS ?= 60
PREFIX  ?= /usr/local
LIBDIR   = $(PREFIX)/lib
MANDIR   = $(PREFIX)/share/man
INCLUDE  = $(PREFIX)/include/incipit
export CC CXX

# $(call step,WORD) begins the recipe of a file: it tells what is made, or shows the command (V=1).
step = $(if $(V),,@echo "  $(1)   $@";) mkdir -p $(@D) &&

# ---- Configuration: build/<config> ---------------------------------------------------------------------------

ifneq ($(SAN),)
    CONFIG       := $(if $(findstring thread,$(SAN)),tsan,asan)
    CONFIG_FLAGS := -O1 -DICP_DEBUG=1 -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifneq ($(DEBUG),)
    CONFIG       := debug
    CONFIG_FLAGS := -O1 -DICP_DEBUG=1
else
    CONFIG       := release
    CONFIG_FLAGS := $(OPT)
endif
B := build/$(CONFIG)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wformat=2
CPPFLAGS += -D_DEFAULT_SOURCE -Iinclude -Isrc
# clang's newest debug format is more than Debian's valgrind can read.
BASE_FLAGS := -std=c11 -ffp-contract=off $(if $(findstring clang,$(CC)),-gdwarf-4,-g) $(WARNINGS) $(WERROR)
override CFLAGS  += $(BASE_FLAGS) $(CONFIG_FLAGS) -fvisibility=hidden -fPIC
override LDFLAGS += $(if $(SAN),-fsanitize=$(SAN))

# ---- What there is -------------------------------------------------------------------------------------------

VERSION := $(shell awk '/define ICP_VERSION_(MAJOR|MINOR|PATCH) / {printf "%s%s", dot, $$3; dot = "."}' \
             include/incipit/cache.h)
SONAME  := libincipit.so.$(firstword $(subst ., ,$(VERSION)))
SHARED  := libincipit.so.$(VERSION)
ENGINE_SONAME := libincipit-engine.so.$(firstword $(subst ., ,$(VERSION)))
ENGINE_SHARED := libincipit-engine.so.$(VERSION)

PUBLIC     := $(wildcard include/incipit/*.h)
LIB_SRC    := $(sort $(filter-out src/base/pool.c,$(wildcard src/base/*.c)) $(wildcard src/cache/*.c))
LIB_HDR    := $(sort $(filter-out src/base/pool.h,$(wildcard src/base/*.h)) $(wildcard src/cache/*.h))
ENGINE_SRC := $(sort src/base/pool.c $(wildcard src/backend/*.c src/model/*.c src/engine/*.c))
CLI_SRC    := $(sort $(wildcard src/cli/*.c))
TEST_SRC   := $(sort $(wildcard tests/test_*.c))
FUZZ_SRC   := $(sort $(wildcard tests/fuzz_*.c))
WORLD_SRC  := $(filter-out $(TEST_SRC) $(FUZZ_SRC),$(sort $(wildcard tests/*.c)))
SAMPLE_SRC := $(sort $(wildcard examples/*.c))
BENCH_SRC  := $(sort $(wildcard bench/bench_*.c))
MAN        := $(sort $(wildcard man/*.[137]))
ALL_SRC    := $(LIB_SRC) $(ENGINE_SRC) $(CLI_SRC) $(TEST_SRC) $(FUZZ_SRC) $(WORLD_SRC) $(SAMPLE_SRC) $(BENCH_SRC)

LIB_OBJ       := $(LIB_SRC:%.c=$(B)/%.o)
ENGINE_OBJ    := $(ENGINE_SRC:%.c=$(B)/%.o)
CLI_OBJ       := $(CLI_SRC:%.c=$(B)/%.o)
WORLD_OBJ     := $(WORLD_SRC:%.c=$(B)/%.o)
TEST_PROGRAMS := $(TEST_SRC:%.c=$(B)/%)
FUZZ_PROGRAMS := $(FUZZ_SRC:%.c=$(B)/%)
SAMPLES       := $(SAMPLE_SRC:%.c=$(B)/%)

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all libs examples tests run demo test fuzz sim fuzz-build fuzz-programs libfuzzer valgrind bench bench-cache \
        bench-engine bench-matrix tidy layers headers amalgamation install uninstall install-program \
        uninstall-program man format clean help FORCE

all: $(B)/incipit libs examples
libs: $(B)/libincipit.a $(B)/libincipit.so $(B)/libincipit-engine.a $(B)/libincipit-engine.so
examples: $(SAMPLES)
tests: $(TEST_PROGRAMS)

# ---- Building ------------------------------------------------------------------------------------------------

# Rewritten when the compiler, the flags or the list of files change: everything of the configuration depends on it.
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(LIB_SRC) $(ENGINE_SRC) $(CLI_SRC) $(WORLD_SRC)' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(B)/tests/%.o: CPPFLAGS += -Itests
$(B)/%.o: %.c $(B)/flags
	$(call step,CC) $(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/libincipit.a: $(LIB_OBJ)
	$(call step,AR) rm -f $@ && $(AR) rcs $@ $^

$(B)/libincipit-engine.a: $(ENGINE_OBJ)
	$(call step,AR) rm -f $@ && $(AR) rcs $@ $^

$(B)/$(SHARED): $(LIB_OBJ)
	$(call step,LD) $(CC) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) $(if $(SAN),,-Wl,--no-undefined) -o $@ $^

# The engine uses the cache as any program does, through its public functions; of base it has its own hidden copy.
$(B)/$(ENGINE_SHARED): $(ENGINE_OBJ) $(filter $(B)/src/base/%,$(LIB_OBJ)) | $(B)/libincipit.so
	$(call step,LD) $(CC) $(LDFLAGS) -shared -Wl,-soname,$(ENGINE_SONAME) $(if $(SAN),,-Wl,--no-undefined) -o $@ $^ \
	    -L$(B) -lincipit -ljansson -lm -pthread

$(B)/libincipit-engine.so: $(B)/$(ENGINE_SHARED)
	@ln -sf $(ENGINE_SHARED) $(B)/$(ENGINE_SONAME) && ln -sf $(ENGINE_SONAME) $@

# The assembler reads the file: the compiler cannot tell make of it.
$(B)/src/engine/builtin.o: model/incipit-debian.gguf

$(B)/libincipit.so: $(B)/$(SHARED)
	@ln -sf $(SHARED) $(B)/$(SONAME) && ln -sf $(SONAME) $@

# Tests and benchmarks link the archive: what is internal is hidden in the shared library.
$(B)/tests/test_%: $(B)/tests/test_%.o $(WORLD_OBJ) $(B)/libincipit-engine.a $(B)/libincipit.a
	$(call step,LD) $(CC) $(LDFLAGS) -o $@ $^ -lcmocka -ljansson -lm

$(B)/tests/fuzz_%: $(B)/tests/fuzz_%.o $(WORLD_OBJ) $(B)/libincipit-engine.a $(B)/libincipit.a
	$(call step,LD) $(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ -lcmocka -ljansson -lm

# This one runs on the tests' backend of integers.
$(B)/bench/bench_engine.o: CPPFLAGS += -Itests
$(B)/bench_engine: $(addprefix $(B)/tests/,fake_backend.o sim_model.o gguf_make.o tokenizer_world.o)

$(B)/bench_%: $(B)/bench/bench_%.o $(B)/libincipit-engine.a $(B)/libincipit.a
	$(call step,LD) $(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) -ljansson -lm

# Examples of the engine include its header; the others need the cache alone.
ENGINE_SAMPLES := $(patsubst %.c,$(B)/%,$(shell grep -l incipit/engine.h $(SAMPLE_SRC)))
$(ENGINE_SAMPLES): $(B)/examples/%: $(B)/examples/%.o $(B)/libincipit-engine.a $(B)/libincipit.a
	$(call step,LD) $(CC) $(LDFLAGS) -o $@ $^ -ljansson -lm -pthread

$(filter-out $(ENGINE_SAMPLES),$(SAMPLES)): $(B)/examples/%: $(B)/examples/%.o $(B)/libincipit.a
	$(call step,LD) $(CC) $(LDFLAGS) -o $@ $^

$(B)/incipit: $(CLI_OBJ) $(B)/libincipit-engine.a $(B)/libincipit.a
	$(call step,LD) $(CC) $(LDFLAGS) -o $@ $^ -ljansson -lm -pthread

build/tools/%: tools/%.c tools/source.c tools/source.h Makefile
	$(call step,CC) $(CC) -D_DEFAULT_SOURCE $(BASE_FLAGS) -O2 -o $@ $< tools/source.c

-include $(ALL_SRC:%.c=$(B)/%.d)

# ---- Running -------------------------------------------------------------------------------------------------

run:
	@tools/setup cc jansson
	@$(MAKE) --no-print-directory $(B)/incipit
	@echo 'The conversation begins with a list of packages, examples/system.txt. Ask "What is tmux?", then "What does jq'
	@echo 'do?": the second answer begins sooner, since the list and the first turn are in the cache.'
	@$(B)/incipit chat --system "$$(cat examples/system.txt)"

demo:
	@tools/setup cc
	@$(MAKE) --no-print-directory $(B)/examples/demo
	@$(B)/examples/demo

man: $(B)/incipit
	$< man > man/incipit.1

test:
	+@MAKE='$(MAKE)' SAN='$(SAN)' tools/run-tests $(if $(T),one $(T),all)

valgrind:
	+@MAKE='$(MAKE)' tools/run-tests valgrind

fuzz:
	@tools/setup cc cmocka jansson
	@$(MAKE) --no-print-directory $(B)/tests/test_fuzz
	OPS=$(OPS) $(B)/tests/test_fuzz

sim:
	@tools/setup cc cmocka jansson
	@$(MAKE) --no-print-directory $(B)/tests/test_sim
	STEPS=$(STEPS) $(B)/tests/test_sim

fuzz-build:
	@tools/setup cc cmocka jansson libfuzzer
	@$(MAKE) --no-print-directory CC=clang CONFIG=libfuzzer SAN=fuzzer-no-link,address,undefined fuzz-programs

fuzz-programs: $(FUZZ_PROGRAMS)

libfuzzer: fuzz-build
	@set -e; for f in $(notdir $(FUZZ_SRC:.c=)); do \
	    mkdir -p build/corpus/$$f; echo "  FUZZ  $$f, $(SECONDS) s"; \
	    build/libfuzzer/tests/$$f -max_total_time=$(SECONDS) -artifact_prefix=build/corpus/$$f- build/corpus/$$f; done

bench: bench-cache bench-engine bench-matrix
bench-engine: $(B)/bench_engine
	$(B)/bench_engine
bench-cache: $(B)/bench_cache
	@mkdir -p build/bench
	$(B)/bench_cache --json build/bench/cache.json
bench-matrix: $(B)/bench_matrix
	@mkdir -p build/bench
	$(B)/bench_matrix --json build/bench/matrix.json

# ---- Checking ------------------------------------------------------------------------------------------------

# Every file of the project that is there, known to git or not; without git, every file outside build/.
FILES = $(or $(shell git ls-files -co --exclude-standard 2>/dev/null),$(shell \
          find . -path ./build -prune -o -path ./.git -prune -o -name __pycache__ -prune -o -type f -print | \
          sed 's|^\./||'))

tidy layers: %: build/tools/%
	@$< $(FILES)

# A body is the text of functions, included where its vectors have been defined: it is no header.
headers:
	@set -e; for h in $(patsubst include/%,%,$(PUBLIC)) \
	        $(patsubst src/%,%,$(filter-out %_body.h,$(wildcard src/*/*.h))); do \
	    printf '#include "%s"\nextern int icp_not_empty;\n' $$h | \
	    $(CC) $(CPPFLAGS) $(CFLAGS) -fsyntax-only -x c - || { echo "$$h does not compile alone"; exit 1; }; done

amalgamation: build/amalgamation/incipit.c
build/amalgamation/incipit.c: build/tools/amalgamate include/incipit/cache.h $(LIB_SRC) $(LIB_HDR) $(B)/flags
	$(call step,GEN) cp include/incipit/cache.h $(@D)/incipit.h && $< $(LIB_SRC) > $@

format:
	clang-format -i $(filter %.c %.h,$(FILES))

# ---- Installing ----------------------------------------------------------------------------------------------

LIBRARIES = libincipit libincipit-engine

install: libs
	install -d $(DESTDIR)$(INCLUDE) $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 644 $(PUBLIC) $(DESTDIR)$(INCLUDE)
	set -e; for name in $(LIBRARIES); do \
	    install -m 644 $(B)/$$name.a $(DESTDIR)$(LIBDIR); \
	    install -m 755 $(B)/$$name.so.$(VERSION) $(DESTDIR)$(LIBDIR); \
	    soname=$$name.so.$(firstword $(subst ., ,$(VERSION))); \
	    ln -sf $$name.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$$soname; \
	    ln -sf $$soname $(DESTDIR)$(LIBDIR)/$$name.so; \
	    sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' $$name.pc.in \
	        > $(DESTDIR)$(LIBDIR)/pkgconfig/$$name.pc; done
	set -e; for page in $(MAN); do install -D -m 644 $$page $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/}; done
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || echo "run ldconfig so that programs find $(SONAME)"

uninstall:
	rm -f $(PUBLIC:include/incipit/%=$(DESTDIR)$(INCLUDE)/%)
	for name in $(LIBRARIES); do \
	    rm -f $(DESTDIR)$(LIBDIR)/$$name.a $(DESTDIR)$(LIBDIR)/$$name.so* $(DESTDIR)$(LIBDIR)/pkgconfig/$$name.pc; done
	for page in $(MAN); do rm -f $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/}; done
	-rmdir $(DESTDIR)$(INCLUDE) 2>/dev/null

# The program, and what completes its words in a shell.
BINDIR      = $(PREFIX)/bin
SHARE       = $(PREFIX)/share
COMPLETIONS = bash:bash-completion/completions/incipit zsh:zsh/site-functions/_incipit \
              fish:fish/vendor_completions.d/incipit.fish

install: install-program
install-program: $(B)/incipit
	install -D -m 755 $< $(DESTDIR)$(BINDIR)/incipit
	set -e; for c in $(COMPLETIONS); do install -d $$(dirname $(DESTDIR)$(SHARE)/$${c#*:}); \
	    $< completion $${c%%:*} > $(DESTDIR)$(SHARE)/$${c#*:}; done

uninstall: uninstall-program
uninstall-program:
	rm -f $(DESTDIR)$(BINDIR)/incipit
	for c in $(COMPLETIONS); do rm -f $(DESTDIR)$(SHARE)/$${c#*:}; done

clean:
	rm -rf build

help:
	@sed -n '1s/^# //p; 2,/^$$/s/^# \{0,1\}//p' Makefile
