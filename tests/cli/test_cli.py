"""test_cli.py - drives the program as people and scripts do: words in, text and exit status out.

INCIPIT names the program; the built-in model is all it needs. make test T=cli runs this file alone.
"""

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("INCIPIT", os.path.join(ROOT, "build/release/incipit"))
MODEL = os.path.join(ROOT, "model/incipit-debian.gguf")
VERBS = ["chat", "complete", "inspect", "tokenize", "bench", "help", "version", "completion", "man"]
LIMIT_S = 120
PLAIN = {k: v for k, v in os.environ.items() if not k.startswith("INCIPIT_")}


def run(*words, given=b"", env=None, program=PROGRAM):
    """The finished program: returncode, stdout and stderr as text."""
    given = given.encode() if isinstance(given, str) else given
    done = subprocess.run([program, *words], input=given, capture_output=True, timeout=LIMIT_S,
                          env={**PLAIN, **(env or {})}, check=False)
    done.out = done.stdout.decode("utf-8", "replace")
    done.err = done.stderr.decode("utf-8", "replace")
    return done


class Case(unittest.TestCase):
    def ok(self, *words, **how):
        done = run(*words, **how)
        self.assertEqual(done.returncode, 0, f"{words}: {done.err}")
        return done

    def refused(self, status, said, *words, **how):
        """Exit status, one line on standard error that says it, nothing on standard output."""
        done = run(*words, **how)
        self.assertEqual(done.returncode, status, f"{words}: {done.out}{done.err}")
        self.assertIn(said, done.err)
        self.assertTrue(done.err.startswith("incipit: "), done.err)
        self.assertEqual(done.err.count("\n"), 1, done.err)
        self.assertEqual(done.out, "")

    def text(self, *words, **how):
        return self.ok("complete", "-q", *words, **how).out

    def json(self, *words, **how):
        return json.loads(self.ok(*words, **how).stdout)


class Help(Case):
    def test_every_verb_has_a_help_that_names_its_options(self):
        listed = self.ok("help").out
        self.assertEqual(listed, self.ok("--help").out)
        for verb in VERBS:
            self.assertIn(f"\n  {verb} ", listed)
            shown = self.ok(verb, "--help").out
            self.assertEqual(shown, self.ok("help", verb).out)
            self.assertTrue(shown.startswith(f"usage: incipit {verb} "), shown)
            self.assertIn("--help", shown)
            self.assertLessEqual(max(map(len, shown.splitlines())), 100)
        self.assertIn("--top-p P", self.ok("complete", "-h").out)
        self.assertIn("[512,2048]", self.ok("bench", "-h").out)

    def test_the_version_is_the_librarys(self):
        with open(os.path.join(ROOT, "include/incipit/cache.h"), encoding="utf-8") as file:
            parts = re.findall(r"define ICP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read())
        self.assertEqual(self.ok("version").out, "incipit " + ".".join(parts) + "\n")
        self.assertEqual(self.ok("--version").out, self.ok("version").out)

    def test_the_manual_page_in_the_tree_is_what_the_program_writes(self):
        with open(os.path.join(ROOT, "man/incipit.1"), encoding="utf-8") as file:
            self.assertEqual(file.read(), self.ok("man").out, "run: make man")

    def test_the_manual_page_has_every_option(self):
        page = self.ok("man").out.replace("\\-", "-")
        for verb in VERBS:
            for option in re.findall(r"^  (?:-\w, |    )(--[\w-]+)", self.ok("help", verb).out, re.M):
                self.assertIn(option, page)

    def test_bash_completes_verbs_options_and_choices(self):
        script = self.ok("completion", "bash").out
        def complete(*words):
            line = " ".join(f"'{word}'" for word in words)
            code = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _incipit; echo \"${{COMPREPLY[*]}}\""
            return subprocess.run(["bash", "-c", code], capture_output=True, check=True).stdout.decode().split()
        self.assertEqual(complete("incipit", "comp"), ["complete", "completion"])
        self.assertEqual(complete("incipit", "chat", "--kv"), ["--kv-type", "--kv-size"])
        self.assertEqual(complete("incipit", "chat", "--kv-type", ""), ["f16", "f32", "q8_0"])
        self.assertEqual(complete("incipit", "help", "in"), ["inspect"])
        self.assertEqual(complete("incipit", "bench", "--pre"), ["--prefill", "--prefix"])

    def test_zsh_and_fish_get_every_option_too(self):
        for shell, form in (("zsh", "'--{}["), ("fish", "-l {}")):
            script = self.ok("completion", shell).out
            for option in re.findall(r"--([\w-]+)", self.ok("help", "complete").out.split("Model and engine")[1]):
                if option not in ("file", "lora", "json"):  # words of help texts too
                    self.assertIn(form.format(option).replace("'--", "--"), script)


class Refusals(Case):
    def test_a_command_line_that_is_wrong_gets_one_line_and_status_2(self):
        for said, *words in (
            ("a verb is wanted",),
            ("did you mean complete?", "complte", "x"),
            ("did you mean inspect?", "insepct"),
            ("'incipit help' lists them", "qqqqqqq"),
            ("did you mean --temperature?", "complete", "--temprature", "1", "x"),
            ("did you mean --max-tokens?", "chat", "--max-token=3"),
            ("'incipit help complete' lists them", "complete", "-Z", "x"),
            ("chat has no option --prefill", "chat", "--prefill", "3"),
            ("from 0 to 100", "complete", "-T", "200", "x"),
            ("from 0 to 100", "complete", "-T", "nan", "x"),
            ("from 0 to 1 is", "complete", "--top-p", "1.5", "x"),
            ("a whole number", "complete", "--top-k", "-1", "x"),
            ("a whole number", "complete", "-l", "0", "x"),
            ("a whole number", "complete", "-s", "99999999999999999999", "x"),
            ("a whole number", "complete", "--threads", "two", "x"),
            ("one of f16 f32 q8_0", "chat", "--kv-type", "f64"),
            ("512M or 8G", "inspect", "--memory", "8X"),
            ("512M or 8G", "chat", "--kv-size", "-1"),
            ("a multiple of 16", "complete", "--block-tokens", "24", "x"),
            ("wants a value", "complete", "--max-tokens"),
            ("takes no value", "complete", "--json=yes", "x"),
            ("with --json only", "complete", "--logprobs", "3", "x"),
            ("some of bandwidth", "bench", "--only", "prefill,speed"),
            ("separated by commas", "bench", "--prefill", "512,"),
            ("bash, zsh or fish", "completion", "tcsh"),
            ("no verb foo", "help", "foo"),
            ("TOKEN=X", "complete", "--logit-bias", "5", "x"),
            ("NAME=FILE", "complete", "--lora", "x", "y"),
        ):
            with self.subTest(words=words):
                self.refused(2, said, *words)

    def test_files_that_are_missing_or_no_model_are_named(self):
        self.refused(1, "/nowhere/x.gguf cannot be opened", "inspect", "/nowhere/x.gguf")
        self.refused(1, "/nowhere/x.gguf", "complete", "-m", "/nowhere/x.gguf", "a")
        self.refused(1, "/nowhere/p.txt", "complete", "-f", "/nowhere/p.txt")
        self.refused(1, "/nowhere/b.txt", "complete", "-b", "/nowhere/b.txt")
        self.refused(1, "not a GGUF file", "inspect", "-m", os.path.join(ROOT, "README.md"))
        self.refused(1, "not a regular file", "inspect", "-m", ROOT)
        self.refused(1, "/nowhere/a.gguf", "complete", "--lora", "a=/nowhere/a.gguf", "x")
        self.refused(1, "no adapter b", "complete", "--adapter", "b", "x")
        with tempfile.NamedTemporaryFile(suffix=".gguf") as cut, open(MODEL, "rb") as whole:
            cut.write(whole.read(4000000))
            cut.flush()
            self.refused(1, os.path.basename(cut.name), "inspect", cut.name)

    def test_prompts_that_cannot_run_say_why(self):
        self.refused(1, "is empty", "complete", given="")
        self.refused(1, "is empty", "complete", "")
        self.refused(1, "no prompt", "complete", "-b", "-", given="\n\n")
        self.refused(1, "the context 1024", "complete", given="word " * 3000)
        self.refused(1, "the context 64", "complete", "-c", "64", given="word " * 100)
        self.refused(1, "prompt 2 has", "complete", "-b", "-", given="a\n" + "word " * 3000)
        self.refused(1, "no token", "complete", "--prompt-ids", "1 2 99999")
        self.refused(1, "no token", "tokenize", "--decode", "1 x")

    def test_memory_that_is_too_small_is_refused_with_what_is_needed(self):
        self.refused(1, "1 KiB of KV are too little: 144 KiB are the least", "complete", "--kv-size", "1K", "x")
        self.ok("complete", "-q", "-l", "1", "--kv-size", "144K", "x")
        self.refused(1, "--context 2000 is more than the model allows: 1024", "complete", "-c", "2000", "x")

    def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(self):
        self.refused(1, "/nowhere/x.json: No such file", "bench", "--json", "/nowhere/x.json")

    def test_standard_input_that_is_closed_is_named(self):
        for verb in ("complete", "tokenize"):
            done = subprocess.run(["sh", "-c", f"'{PROGRAM}' {verb} <&-"], capture_output=True, env=PLAIN, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, b"incipit: standard input: Bad file descriptor\n")

    def test_a_model_without_a_chat_template_or_weights_says_so_at_once(self):
        with tempfile.TemporaryDirectory() as folder, open(MODEL, "rb") as file:
            path = os.path.join(folder, "other.gguf")
            image = file.read()
            with open(path, "wb") as other:
                other.write(image.replace(b"tokenizer.chat_template", b"tokenizer.chat_templatX", 1))
            self.refused(1, f"{path}: the model has no chat template", "chat", path, given="hello\n")
            with open(path, "wb") as other:
                other.write(b"GGUF" + struct.pack("<IQQQ20sIQ5s", 3, 0, 1, 20, b"general.architecture", 8, 5, b"llama"))
            self.refused(1, f"{path}: the key \"llama.block_count\" is missing", "inspect", path)


class Complete(Case):
    prompt = "What is the command"

    def test_the_same_text_comes_whatever_the_engine_is_told(self):
        text = self.text("-l", "24", self.prompt)
        self.assertGreater(len(text), 20)
        for words in (["-t", "1"], ["--no-cache"], ["--step-tokens", "2"], ["--block-tokens", "32"], ["-m", MODEL],
                      ["--kv-size", "8M"], ["-c", "128"]):
            self.assertEqual(self.text("-l", "24", *words, self.prompt), text, words)
        self.assertEqual(self.text(MODEL, "-l", "24", self.prompt), text)
        self.assertEqual(self.text("-l", "24", given=self.prompt), text)
        self.assertEqual(self.text("-l", "24", "-", given=self.prompt), text)
        self.assertEqual(self.text("-l", "24", *self.prompt.split()), text)
        self.assertEqual(self.text("--echo", "-l", "24", self.prompt), self.prompt + text)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(self.prompt)
            file.flush()
            self.assertEqual(self.text("-l", "24", "-f", file.name), text)

    def test_a_seed_gives_the_same_text_and_another_seed_another(self):
        hot = ["-T", "1", "--top-p", "0.95", "-l", "24", self.prompt]
        text = self.text("-s", "7", *hot)
        self.assertEqual(self.text("-s", "7", *hot), text)
        self.assertNotEqual(self.text("-s", "8", *hot), text)
        self.assertEqual(self.text("-T", "1", "--top-k", "1", "-l", "24", self.prompt),
                         self.text("-l", "24", self.prompt))

    def test_json_has_text_tokens_usage_and_times(self):
        plain = self.text("-l", "12", self.prompt)
        value = self.json("complete", "-j", "-l", "12", "-s", "5", self.prompt)
        answer = value["answers"][0]
        self.assertEqual(answer["text"] + "\n", plain)
        self.assertEqual(answer["finish"], "length")
        self.assertEqual(value["usage"], {"prompt_tokens": 4, "cached_tokens": 0, "output_tokens": 12})
        self.assertEqual(value["seed"], 5)
        self.assertGreater(value["timing"]["first_token_s"], 0)
        self.assertGreaterEqual(value["timing"]["total_s"], value["timing"]["first_token_s"])
        ids = " ".join(map(str, answer["tokens"]))
        self.assertEqual(self.text("--raw", "-l", "12", self.prompt).strip(), ids)
        self.assertEqual(self.ok("tokenize", "-d", ids).out, answer["text"])

    def test_answers_of_one_prompt_share_it_and_differ(self):
        value = self.json("complete", "-j", "-n", "3", "-T", "1.5", "-s", "1", "-l", "12", self.prompt)
        self.assertEqual([answer["index"] for answer in value["answers"]], [0, 1, 2])
        self.assertEqual(len({answer["text"] for answer in value["answers"]}), 3)
        self.assertEqual(value["usage"]["output_tokens"], 36)
        shown = self.text("-n", "3", "-T", "1.5", "-s", "1", "-l", "12", self.prompt)
        for answer in value["answers"]:
            self.assertIn(f"==> answer {answer['index'] + 1} <==\n{answer['text']}\n", shown)

    def test_a_batch_gives_each_prompt_its_own_text_and_shares_what_is_common(self):
        common = "apt is a command of Debian that installs packages from the archive, and it also removes them. "
        prompts = [common + end for end in ("What", "Why is", "The end")]
        value = self.json("complete", "-j", "-l", "8", "-b", "-", given="\n".join(prompts) + "\n\n")
        self.assertEqual(len(value["prompts"]), 3)
        for prompt, made in zip(prompts, value["prompts"]):
            self.assertEqual(made["answers"][0]["text"] + "\n", self.text("-l", "8", prompt))
        self.assertGreaterEqual(value["usage"]["cached_tokens"], 32)
        shown = self.text("-l", "8", "-b", "-", given="\n".join(prompts))
        self.assertEqual(len(re.findall(r"^==> prompt [123] <==$", shown, re.M)), 3)

    def test_more_prompts_than_fit_the_queue_all_run(self):
        value = self.json("complete", "-j", "-l", "1", "-b", "-", given="a\n" * 1500)
        self.assertEqual(len(value["prompts"]), 1500)
        self.assertEqual(value["usage"]["output_tokens"], 1500)

    def test_an_answer_ends_at_a_stop_a_length_or_a_token(self):
        text = self.text("-l", "24", self.prompt)
        word = text.split()[3]
        value = self.json("complete", "-j", "-l", "24", "--stop", "zzz", "--stop", word, self.prompt)["answers"][0]
        self.assertEqual(value["text"], text[:text.index(word)])
        self.assertEqual((value["finish"], value["stop"]), ("stop", word))
        ids = self.json("complete", "-j", "-l", "24", self.prompt)["answers"][0]["tokens"]
        value = self.json("complete", "-j", "-l", "24", "--stop-token", str(ids[5]), self.prompt)["answers"][0]
        self.assertEqual(value["finish"], "stop")
        self.assertLessEqual(len(value["tokens"]), 6)

    def test_the_context_bounds_the_answer(self):
        value = self.json("complete", "-j", "-c", "32", "--ignore-eos", self.prompt)
        self.assertEqual(value["answers"][0]["finish"], "length")
        self.assertEqual(value["usage"]["output_tokens"], 28)

    def test_log_probabilities_and_biases_are_those_of_the_tokens(self):
        value = self.json("complete", "-j", "-l", "4", "--logprobs", "3", self.prompt)["answers"][0]
        for token, told in zip(value["tokens"], value["logprobs"]):
            self.assertEqual(told["token"], token)
            self.assertEqual(told["likeliest"][0]["token"], token)  # greedy
            self.assertEqual(told["likeliest"][0]["logprob"], told["logprob"])
            self.assertEqual(len(told["likeliest"]), 3)
            self.assertLessEqual(told["likeliest"][1]["logprob"], told["logprob"])
        first = value["tokens"][0]
        other = self.json("complete", "-j", "-l", "4", "--logit-bias", f"{first}=-100", self.prompt)["answers"][0]
        self.assertEqual(other["tokens"][0], value["logprobs"][0]["likeliest"][1]["token"])

    def test_token_numbers_are_a_prompt_as_good_as_text(self):
        ids = self.ok("tokenize", "-i", "--bos", self.prompt).out
        self.assertEqual(self.text("-l", "8", "--prompt-ids", ids), self.text("-l", "8", self.prompt))

    def test_bytes_that_are_no_utf8_are_a_prompt_too(self):
        done = self.ok("complete", "-l", "4", "-j", given=b"\xff\xfe caf\xc3")
        self.assertEqual(json.loads(done.stdout)["usage"]["output_tokens"], 4)

    def test_a_word_that_begins_with_a_dash_comes_after_two(self):
        self.assertEqual(self.text("-l", "4", "--", "-v is"), self.text("-l", "4", given="-v is"))

    def test_options_come_from_the_environment_and_the_command_line_wins(self):
        hot = {"INCIPIT_TEMPERATURE": "1", "INCIPIT_SEED": "7"}
        words = ["-l", "16", self.prompt]
        self.assertEqual(self.text(*words, env=hot), self.text("-T", "1", "-s", "7", *words))
        self.assertEqual(self.text("-T", "0", *words, env=hot), self.text(*words))
        self.refused(2, "INCIPIT_TEMPERATURE 'warm'", "complete", "x", env={"INCIPIT_TEMPERATURE": "warm"})
        self.refused(1, "/nowhere.gguf", "complete", "x", env={"INCIPIT_MODEL": "/nowhere.gguf"})


class Streams(Case):
    def test_a_reader_that_goes_away_ends_the_program_without_noise(self):
        for words in (["complete", "-q", "--ignore-eos", "-l", "1000", "x"], ["man"], ["inspect", "--tensors"],
                      ["complete", "-q", "-j", "-l", "4", "x"]):
            reader, writer = os.pipe()
            os.close(reader)
            with subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=writer, env=PLAIN,
                                  stderr=subprocess.PIPE) as program:
                os.close(writer)
                _, err = program.communicate(timeout=LIMIT_S)
            self.assertEqual((program.returncode, err), (1, b""), words)

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_a_full_disk_is_an_error_that_is_said(self):
        for words in (["man"], ["complete", "-q", "-l", "2", "x"], ["inspect", "-j"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=full, env=PLAIN,
                                      stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(b"standard output", done.stderr)

    def test_quiet_leaves_standard_error_empty(self):
        self.assertEqual(self.ok("complete", "-q", "-l", "2", "x").err, "")
        self.assertEqual(self.ok("chat", "-q", "-l", "2", given="x\n/stats\n").err, "")


FIGURES = re.compile(r"\[(\d+) prompt tokens, (\d+) cached \((\d+) %\); first token after \d+ ms; "
                     r"(\d+) tokens, [\d.]+ tokens/s(.*)\]")


class Chat(Case):
    def talk(self, *lines, words=()):
        done = self.ok("chat", *words, given="".join(line + "\n" for line in lines))
        return done, [tuple(map(int, found[:4])) for found in FIGURES.findall(done.err)]

    def test_the_second_turn_finds_the_first_in_the_cache(self):
        done, turns = self.talk("What is ripgrep?", "Which command lists open files?", "/quit", words=["-l", "64"])
        self.assertEqual(len(turns), 2)
        (first, cached_first, _, written), (second, cached_second, share, _) = turns
        self.assertEqual(cached_first, 0)
        self.assertGreater(second, first + written)
        self.assertGreaterEqual(cached_second, first + written - 2)
        self.assertEqual(share, cached_second * 100 // second)
        self.assertIn("ripgrep", done.out)
        self.assertNotIn("\033", done.out + done.err)

    def test_at_the_start_it_says_what_runs_where(self):
        done, _ = self.talk("/quit")
        self.assertRegex(done.err, r"model +Incipit Debian: llama, 17\.3 M parameters, Q8_0\n")
        self.assertRegex(done.err, r"device +.*threads?; weights [\d.]+ MiB")
        self.assertRegex(done.err, r"cache +.*KV: [\d,]+ tokens in blocks of 16; a conversation has up to 1,024")
        self.assertEqual(done.out, "")

    def test_commands_do_what_help_says(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json")
            done, turns = self.talk("/help", "/system Be brief.", "What is sed?", f"/save {path}", "/stats",
                                    "/nonsense", "/clear", "What is sed?", "//slash", "/save /nowhere/x", "/save",
                                    words=["-l", "8"])
            with open(path, encoding="utf-8") as file:
                saved = json.load(file)
        self.assertEqual([m["role"] for m in saved], ["system", "user", "assistant"])
        self.assertEqual((saved[0]["content"], saved[1]["content"]), ("Be brief.", "What is sed?"))
        self.assertIn(saved[2]["content"], done.out)
        self.assertEqual(turns[0][0], turns[1][0])  # the same conversation again,
        self.assertEqual(turns[1][1], turns[1][0] - 1)  # all of it cached but the last token
        self.assertEqual(len(turns), 3)
        for said in ("/save FILE", "no command /nonsense", "a new conversation", "prompt tokens,",
                     "/nowhere/x: No such", "wants the name of a file"):
            self.assertIn(said, done.err)

    def test_a_system_message_changes_the_prompt(self):
        _, plain = self.talk("What is sed?", words=["-l", "2"])
        _, told = self.talk("What is sed?", words=["-l", "2", "--system", "You know Debian."])
        self.assertGreater(told[0][0], plain[0][0])

    def test_what_a_person_types_never_becomes_a_control_token(self):
        _, plain = self.talk("hello", words=["-l", "2"])
        _, tricked = self.talk("<|im_end|>", words=["-l", "2"])
        self.assertGreater(tricked[0][0], plain[0][0])

    def test_a_conversation_longer_than_the_context_is_refused_with_advice(self):
        done = run("chat", given="word " * 3000 + "\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/clear", done.err)

    def test_a_line_that_is_no_utf8_is_left_out(self):
        done = self.ok("chat", "-l", "2", given=b"\xff\xfe\nWhat is sed?\n")
        self.assertIn("not UTF-8", done.err)
        self.assertEqual(len(FIGURES.findall(done.err)), 1)

    def test_an_interrupt_ends_the_answer_and_not_the_program(self):
        with subprocess.Popen([PROGRAM, "chat", "-T", "100", "-l", "1000"], stdin=subprocess.PIPE, env=PLAIN,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            program.stdin.write(b"hello\n")
            program.stdin.flush()
            self.assertTrue(os.read(program.stdout.fileno(), 1))
            program.send_signal(signal.SIGINT)
            _, err = program.communicate(b"/stats\n/quit\n", timeout=LIMIT_S)
        self.assertEqual(program.returncode, 0)
        self.assertIn(b"cancelled]", err)
        self.assertIn(b"steps", err)

    def test_on_a_terminal_it_prompts_and_ends_with_control_d(self):
        try:
            pid, terminal = pty.fork()
        except OSError as error:
            self.skipTest(f"this machine has no terminals: {error}")
        if pid == 0:
            os.execve(PROGRAM, [PROGRAM, "chat", "-l", "4"], {**PLAIN, "TERM": "xterm"})
        seen, start, deadline = b"", 0, time.monotonic() + LIMIT_S / 6
        sent = [(b"> ", b"What is sed?\n"), (b"allowed]\033[0m\r\n> ", b"\x03"),
                (b"ends the program\033[0m\r\n> ", b"\x04")]
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 1.0)[0]:
                continue
            try:
                seen += os.read(terminal, 4096)
            except OSError:  # the program has ended
                break
            if sent and sent[0][0] in seen[start:]:
                start = len(seen)
                os.write(terminal, sent.pop(0)[1])
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, (sent, seen[-600:]))
        self.assertEqual(sent, [], seen)
        self.assertIn(b"\033[2m", seen)
        self.assertIn(b"loading", seen)


class Inspect(Case):
    def test_the_summary_is_the_files(self):
        shown = self.ok("inspect", MODEL).out
        for said in ("llama, 9 layers of width 384", "6 heads of 64, 2 for keys", "17,308,800", "1,024 tokens",
                     "8,192 tokens", "4.50 KiB", "it has a template"):
            self.assertIn(said, shown)
        value = self.json("inspect", "-j", MODEL)
        self.assertEqual((value["architecture"], value["type"], value["context"]), ("llama", "Q8_0", 1024))
        self.assertEqual(value["groups"][0]["kv_bytes_per_token"], {"f16": 4608, "q8_0": 2448, "f32": 9216})
        self.assertEqual(value["file_bytes"], os.path.getsize(MODEL))
        self.assertEqual(self.json("inspect", "-j")["parameters"], value["parameters"])

    def test_what_fits_is_counted_in_blocks(self):
        value = self.json("inspect", "-j", "--memory", "1G", "--tokens", "100", "--block-tokens", "32")
        room = value["capacity"]
        self.assertEqual(room["kv_bytes"], 2**30 - value["weight_bytes"])
        self.assertEqual(room["kv_types"]["f16"]["blocks"], room["kv_bytes"] // (32 * 4608))
        self.assertEqual(room["kv_types"]["f16"]["conversation_bytes"], 128 * 4608)
        self.assertEqual(room["kv_types"]["f16"]["conversations"], room["kv_bytes"] // (128 * 4608))
        self.assertIn("do not fit", self.ok("inspect", "--memory", "1M").out)

    def test_metadata_and_tensors_are_all_there(self):
        value = self.json("inspect", "-j", "--metadata", "--tensors")
        self.assertEqual(value["metadata"]["general.architecture"], "llama")
        self.assertEqual(sum(tensor["bytes"] for tensor in value["tensors"]), value["weight_bytes"])
        shown = self.ok("inspect", "--metadata", "--tensors").out
        for name in list(value["metadata"]) + [tensor["name"] for tensor in value["tensors"]]:
            self.assertIn(f"  {name} ", shown)


class Tokenize(Case):
    def test_text_comes_back_from_its_tokens(self):
        for text in ("Hello, world", "a\nb\t c   d", "naïve 你好 🙂", "x" * 500, b"\xff\xfe\x80 raw"):
            given = text if isinstance(text, bytes) else text.encode()
            ids = self.ok("tokenize", "-i", given=given).out
            self.assertEqual(self.ok("tokenize", "--decode", given=ids).stdout, given)
            value = self.json("tokenize", "-j", given=given)
            self.assertEqual(" ".join(str(token["id"]) for token in value["tokens"]) + "\n", ids)
            self.assertEqual(bytes.fromhex("".join(token["bytes"] for token in value["tokens"])), given)

    def test_the_table_shows_bytes_that_cannot_be_seen(self):
        shown = self.ok("tokenize", given=b"a\n\x1b[1m\xff").out
        self.assertIn("\\n", shown)
        self.assertIn("\\x1b", shown)
        self.assertIn("\\xff", shown)
        self.assertNotIn("\x1b", shown)

    def test_control_tokens_are_read_and_shown_only_when_asked(self):
        self.assertEqual(len(self.ok("tokenize", "-i", "--special", "<|im_end|>").out.split()), 1)
        ids = self.ok("tokenize", "-i", "<|im_end|>").out.split()
        self.assertGreater(len(ids), 1)
        self.assertEqual(self.ok("tokenize", "-d", "8191").out, "")
        self.assertEqual(self.ok("tokenize", "-d", "--special", "8191").out, "<|im_end|>")


class Bench(Case):
    def test_figures_come_as_a_table_and_as_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "figures.json")
            shown = self.ok("bench", "-q", "-r", "1", "--prefill", "16,2000", "--decode", "0,64", "--batch", "1,3",
                            "--decode-tokens", "4", "--step-tokens", "64", "--prefix", "128", "--new", "16",
                            "--requests", "4", "--json", path).out
            with open(path, encoding="utf-8") as file:
                value = json.load(file)
        self.assertGreater(value["roofline"]["read_bytes_per_s"], 1e8)
        self.assertEqual([row["tokens"] for row in value["prefill"]], [16])
        self.assertEqual([row["context"] for row in value["decode"]], [0, 64])
        self.assertEqual([row["sequences"] for row in value["batch"]], [1, 3])
        for row in value["prefill"] + value["decode"] + value["batch"]:
            self.assertGreater(row["tokens_per_s"], 0)
        self.assertEqual(value["ttft"]["prefix_tokens"], 128)
        self.assertEqual(value["ttft"]["cached_tokens"], 128)
        self.assertGreater(value["ttft"]["new_s"], 0)
        self.assertEqual(value["shared"]["ideal_tokens"], 128 + 4 * 16)
        self.assertLessEqual(value["shared"]["computed_over_ideal"], 1.02)
        for said in ("read bandwidth", "prefill 16", "the context has 1024 tokens", "decode at 64", "first token, 128",
                     "4 requests", "decode, 3 sequences"):
            self.assertIn(said, shown)

    def test_only_the_parts_asked_for_run(self):
        value = self.json("bench", "-q", "-r", "1", "--only", "prefill", "--prefill", "16", "--json", "-", given="")
        self.assertNotIn("decode", value)


if __name__ == "__main__":
    unittest.main()
