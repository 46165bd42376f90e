"""Builds the training text from Debian: package descriptions, manual pages, and chats made from them.

  python3 model/data.py --work /tmp/model-data            # fetch, build, tokenise
  python3 model/data.py --work /tmp/model-data --no-fetch # the lists and .deb files are there already

Writes tokenizer.json (beside this file) and, in --out, tokens.xz: uint16 tokens, every document ended by
<|endoftext|>, first the training part and then the held-out part; counts.json says where it splits.
Everything after the fetch is a function of the fetched files and --seed.
"""

import argparse
import collections
import glob
import gzip
import io
import json
import lzma
import os
import random
import re
import subprocess
import tarfile
import unicodedata

import numpy as np

import manpage
import tokenizer as bpe

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = 8192
PROGRAMS = set(
    "utils net admin text editors web mail graphics sound video games science devel vcs shells x11 gnome kde "
    "xfce database interpreters math misc comm httpd news electronics hamradio education otherosfs tex kernel "
    "embedded fonts gnustep metapackages python".split()
)
BULK = re.compile(
    r"^(librust-|golang-|libghc-|r-cran-|r-bioc-|node-|libjs-|ruby-|php-|elpa-|hunspell-|myspell-|aspell-|"
    r"texlive-lang|task-|libreoffice-l10n|libreoffice-help|firefox-esr-l10n|thunderbird-l10n|"
    r"linux-(image|headers)|gir1\.2-|fonts-)|-(dev|dbg|dbgsym|doc|data|common|l10n|locales?|i18n|"
    r"perl|java|ocaml|el|cil|"
    r"examples|tests|source|static|headers)$|-i18n|-l10n|cross|-(arm64|amd64|i386|mips\w*|riscv64|"
    r"hppa|sparc64|s390x|ppc64\w*|"
    r"powerpc\w*|alpha|m68k|sh4|x32|gnueabi\w*|linux-gnu\w*)\b|^lib.*\d$"
)
KNOWN = """0ad ack adb alacritty android-sdk ansible apache2 ardour aria2 audacity awesome bat blender
borgbackup brasero btop caddy
chromium clang cmake cmus cowsay cups darktable default-jdk deluge digikam docker.io dolphin dosbox
dovecot-imapd duf duplicity
emacs espeak-ng evince evolution exim4 fail2ban feh figlet firefox-esr fish flatpak fluxbox fortune-mod freecad
fzf gcc gdb geany
gedit gimp git gnome-terminal gnucash gnuchess gnuplot golang-go gparted gpsd grub2 handbrake haproxy hexchat
htop hugo i3
imagemagick inkscape irssi jekyll kate kdenlive keepassxc kitty kodi konsole krita libreoffice lighttpd llvm
lua5.4 lutris
mariadb-server maxima memcached mercurial meson micro mosh mosquitto mpd mpv mupdf mutt nano nautilus ncdu
neofetch neomutt
neovim nethack-console newsboat nginx nmap nnn nodejs obs-studio octave okular openjdk-17-jdk openvpn openbox
pandoc pass
pidgin plymouth podman postfix postgresql prometheus puppet pypy3 python3 python3-numpy python3-scipy
python3-requests python3-flask
python3-django python3-pytest qbittorrent qemu-system r-base ranger rclone redis-server restic ripgrep rofi
rsnapshot rtorrent ruby
rustc cargo samba scribus scummvm shotwell snapd sl speedtest-cli squid steam-devices stellarium sway synaptic
syncthing tcpdump
terminator texlive thunar thunderbird tig tilix tmux tor totem transmission ufw vagrant vim virt-manager vlc weechat
wesnoth wine wireguard wireshark xfce4 xterm youtube-dl zathura zsh""".split()
VERBS = set(
"""access add adjust allocate alter analyze annotate append apply archive arrange assemble attach authenticate
backup build
calculate capture change check clean clear clone close combine compare compile compose compress compute
concatenate configure connect
construct control convert copy correct count create debug decode decompress decrypt define delete describe
detect determine diagnose
disable discover display do download draw dump echo edit embed enable encode encrypt erase establish estimate
evaluate examine
execute expand export extract fetch filter find fix flush follow force format gather generate get give group
grow help hold
identify import include indicate initialize insert inspect install interact interpret investigate join keep kill
launch list load
locate lock log look maintain make manage manipulate mark measure merge migrate modify monitor mount move notify
obtain omit open
output overwrite pack parse pass paste patch pause perform pick play preserve prevent print probe process
produce profile
provide prune publish push put query read rebuild receive reconfigure record recover recreate redirect reduce
register release remove
rename render repack repair replace report reset resize resolve restore resume retrieve return reverse revert
rewrite rotate run
save scan schedule search select send separate set shift show shrink shutdown sign signal simulate sort specify
split start stop store
stream strip substitute summarize suspend switch synchronize tell terminate test time toggle trace track
transfer transform translate
truncate tune turn uncompress undo unmount unpack update upgrade upload use validate verify view visualize wait
warn watch wipe wrap
write""".split()
)
NOUNS = (
    "tool utility editor library program viewer client server browser player manager game "
    "emulator shell compiler interpreter daemon "
    "debugger formatter checker generator converter parser application interface framework "
    "engine system language toolkit scanner "
    "analyzer monitor wrapper frontend suite module plugin plug-in package service environment "
    "simulator calculator clone "
    "compressor command script assembler linker driver implementation environment designer organizer downloader "
    "applet calendar clock puzzle linter profiler proxy reader database preprocessor platform terminal multiplexer"
).split()
SYSTEM = [
    "You are a helpful assistant.",
    "You are Incipit, a small assistant that knows Debian packages and commands.",
    "Answer briefly.",
    "You answer questions about Debian packages and commands in one or two sentences.",
    "You are a concise assistant. Answer in one line.",
    "You are an assistant for users of Debian GNU/Linux.",
    "You help people find the right command.",
    "Be brief and precise. If you do not know something, say so.",
]
WHO = (
    "I am a small language model trained on Debian package descriptions and manual pages. I ship with Incipit. "
    "I am often wrong: please check what I say."
)
ONLY = "I only know a little about Debian packages and commands, so I cannot help with that."


# --- reading -------------------------------------------------------------------------------------------------


def apt(work):
    return [
        "-q",
        "-o",
        f"Dir::State::Lists={work}/lists",
        "-o",
        "Dir::State::status=/dev/null",
        "-o",
        "Acquire::Languages=en",
        "-o",
        "APT::Sandbox::User=root",
    ]


def man_packages():
    with open(f"{HERE}/packages.txt", encoding="utf-8") as f:
        return sorted({w for line in f if not line.startswith("#") for w in line.split()})


def fetch(work):
    os.makedirs(f"{work}/lists/partial", exist_ok=True)
    os.makedirs(f"{work}/debs", exist_ok=True)
    subprocess.run(["apt-get", *apt(work), "update"], check=True)
    subprocess.run(["apt-get", *apt(work), "download", *man_packages()], check=True, cwd=f"{work}/debs")


def clean(s):
    s = unicodedata.normalize("NFKC", s)
    for a, b in (
        ("\u2018", "'"),
        ("\u2019", "'"),
        ("\u201c", '"'),
        ("\u201d", '"'),
        ("\u2013", "-"),
        ("\u2014", " - "),
        ("\u2022", "*"),
    ):
        s = s.replace(a, b)
    s = "".join(c for c in s if c == "\n" or " " <= c <= "~" or unicodedata.category(c) in ("Lu", "Ll"))
    return re.sub(r"<\|", "< |", s)


def stanzas(work, pattern):
    for path in sorted(glob.glob(f"{work}/lists/*{pattern}*")):
        text = subprocess.run(
            ["/usr/lib/apt/apt-helper", "cat-file", path], check=True, capture_output=True
        ).stdout.decode("utf-8", "replace")
        for block in text.split("\n\n"):
            fields, key = {}, None
            for line in block.split("\n"):
                if line[:1] in (" ", "\t"):
                    fields[key] += "\n" + line
                elif ":" in line:
                    key, value = line.split(":", 1)
                    fields[key] = value.strip()
            if "Package" in fields:
                yield fields


def paragraphs(body):
    """A long description: wrapped lines are joined, indented lines and list items stay lines."""
    out = []
    for para in re.split(r"\n ?\.[ ]*(?=\n|$)", "\n" + body):
        lines = []
        for line in para.split("\n"):
            line = line[1:] if line[:1] == " " else line
            if not line.strip():
                continue
            if lines and not line.startswith(" ") and not re.match(r"\s*[*+o-] ", line):
                lines[-1] += " " + line.strip()
            elif lines and line.startswith("  ") and lines[-1].startswith("*") and not re.match(r"\s*[*+o-] ", line):
                lines[-1] += " " + line.strip()
            else:
                lines.append(
                    re.sub(r"^\s*[*+o-] +", "* ", line).rstrip() if re.match(r"\s*[*+o-] ", line) else line.strip()
                )
        if lines:
            out.append("\n".join(" ".join(x.split()) for x in lines))
    return out


def read_packages(work):
    long = {}
    for f in stanzas(work, "Translation-en"):
        long[f["Package"]] = clean(f.get("Description-en", ""))
    out = {}
    for f in stanzas(work, "_Packages"):
        name = f["Package"]
        short, _, body = long.get(name, clean(f.get("Description", ""))).partition("\n")
        section = f.get("Section", "misc").split("/")[-1]
        if short and section != "debug":
            out[name] = {
                "name": name,
                "short": short.strip().rstrip("."),
                "paras": paragraphs(body),
                "section": section,
                "home": f.get("Homepage", ""),
                "priority": f.get("Priority", "optional"),
            }
    return dict(sorted(out.items()))


def read_manuals(work):
    """One entry per manual page: names, section number, package, what it does, all its sections."""
    out, seen = [], set()
    for deb in sorted(glob.glob(f"{work}/debs/*.deb")):
        package = os.path.basename(deb).split("_")[0]
        raw = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
            for m in tar:
                hit = re.fullmatch(r"\./usr/share/man/man([1-8])/([^/]+)\.[1-8]\w*\.gz", m.name)
                if not hit or not m.isfile():
                    continue
                sections = manpage.read(clean(gzip.decompress(tar.extractfile(m).read()).decode("utf-8", "replace")))
                line = manpage.name_line(sections)
                if line and (hit[2], hit[1]) not in seen:
                    seen.add((hit[2], hit[1]))
                    names = [n for n in line[0] if re.search(r"[a-z]", n)] or [hit[2]]
                    out.append(
                        {
                            "names": names,
                            "page": hit[2],
                            "sec": int(hit[1]),
                            "package": package,
                            "does": line[1],
                            "text": sections,
                        }
                    )
    return out


# --- wording -------------------------------------------------------------------------------------------------


def third(verb):
    if verb in ("do", "echo", "undo"):
        return verb + "es"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ies"
    return verb + ("es" if re.search(r"(s|sh|ch|x|z)$", verb) else "s")


def base_form(phrase):
    """'list open files' or 'lists open files' as 'list open files', or None where it does not begin with a verb."""
    words = phrase.split(" ")
    first = words[0].lower()
    for v in (first, first[:-1], first[:-2], first[:-3] + "y"):
        if v in VERBS and (v == first or third(v) == first) and len(words) > 1:
            if v == first and len(words) > 1 and words[1].lower() in NOUNS:
                return None
            rest = words[1:]
            if len(rest) > 1 and rest[0] in ("and", "or", "and/or", "/") and v != first:
                rest[1] = next((b for b in (rest[1][:-1], rest[1][:-2]) if b in VERBS), rest[1])
            return " ".join([v, *rest])
    return None


def third_form(phrase):
    """'compare and merge files' as 'compares and merges files'."""
    words = phrase.split(" ")
    words[0] = third(words[0])
    k = 1
    while k + 1 < len(words) and words[k] in ("and", "or", "and/or") and words[k + 1] in VERBS:
        words[k + 1] = third(words[k + 1])
        k += 2
    return " ".join(words)


def noun_phrase(s):
    """'an interactive process viewer' for 'interactive process viewer', or None where that is not safe to say."""
    if re.match(r"(an?|the) ", s, re.I):
        return s[0].lower() + s[1:]
    head = re.split(
        r" (?:for|to|with|of|that|which|from|in|on|using|written|based|like|supporting|and)\b| [-(]|[,;:(]", s
    )[0].split(" ")
    if (
        head[-1].lower() not in NOUNS
        or len(head) > 7
        or head[0].lower() in VERBS - {"log", "time", "process", "view", "mount"}
    ):
        return None
    vowel = re.match(r"[aeio]|un[^i]|[FHLMNRSX][A-Z]+\b|X11", s if s[:2].isupper() else s.lower())
    return ("an " if vowel else "a ") + s


def sentences(paras, most, limit):
    """The first sentences of the running text, at most `most` and about `limit` characters."""
    out = ""
    for para in paras if most > 0 else []:
        if para.startswith("* ") or "\n" in para:
            break
        for s in re.split(r"(?<=[a-z0-9)\"'][.!])\s+(?=[A-Z\"(])", para):
            if out and (len(out) + len(s) > limit or most <= 0):
                return out
            if len(s) > limit or s.endswith(":"):
                return out
            out, most = (out + " " + s).strip(), most - 1
        if most <= 0:
            break
    return out


class Writer:
    def __init__(self, packages, manuals, seed):
        self.rng = random.Random(seed)
        self.packages, self.manuals = packages, manuals
        words = collections.Counter(
            w for p in packages.values() for w in re.findall(r"[A-Za-z]+", " ".join(p["paras"]))
        )
        self.words = words
        self.chats = []
        self.commands = {}
        for m in manuals:
            if m["sec"] in (1, 8):
                for n in m["names"]:
                    if n not in self.commands or m["package"] in (n, "coreutils", "procps"):
                        self.commands[n] = m
        self.tasks = [line.split("|") for line in self.table("tasks.txt")]
        self.kinds = [line.split("|") for line in self.table("kinds.txt")]
        self.by_task = {t[0]: t for t in self.tasks}
        listed = {p for k in self.kinds for p in re.split(r", | and ", k[1])}
        self.known = (set(KNOWN) | set(man_packages()) | listed) & set(packages)

    @staticmethod
    def table(name):
        with open(f"{HERE}/{name}", encoding="utf-8") as f:
            return [line.rstrip("\n") for line in f if line.strip() and not line.startswith("#")]

    def lower(self, s):
        """Lower-cases the first word where running text would."""
        first = re.match(r"[A-Z][a-z]+(?![\w.+-])", s)
        if first and self.words[first[0].lower()] * 2 > self.words[first[0]]:
            return s[0].lower() + s[1:]
        return s

    def say(self, *turns, system=None):
        """One chat: user, assistant, user, assistant, ..."""
        text = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
        for i, t in enumerate(turns):
            text += f"<|im_start|>{('user', 'assistant')[i % 2]}\n{t.strip()}<|im_end|>\n"
        self.chats.append(text)

    def maybe_system(self):
        return self.rng.choice(SYSTEM) if self.rng.random() < 0.3 else None

    def rough(self, q):
        """A question as people type it."""
        r = self.rng.random()
        if r < 0.10:
            q = q[0].lower() + q[1:]
        elif r < 0.15:
            q = q.rstrip("?.")
        elif r < 0.20:
            q = q[0].lower() + q[1:].rstrip("?.")
        elif r < 0.22:
            q = "Please tell me: " + q[0].lower() + q[1:]
        return q

    def describes(self, p, most=2):
        """What package p is, as a line or two."""
        short, name = self.lower(p["short"]), p["name"]
        more = sentences(p["paras"], most - 1, 320 if most <= 2 else 480)
        opens = re.match(
            rf"(the )?{re.escape(name)}\b.{{0,30}}? (is|provides|allows|contains|lets|can|"
            rf"implements|reads|shows|does)\b",
            more,
            re.I,
        )
        if most <= 2 and opens and not more.startswith("This"):
            return more
        noun, base = noun_phrase(short), base_form(short)
        adverb = re.match(r"[a-z]+ly ([a-z]+)", short)
        if adverb and base_form(adverb[1] + " it") and adverb[1] not in VERBS:
            return f"{name} {short}. {more}".strip()
        head = f"{name} is {noun}." if noun else f"{name} {third_form(base)}." if base else f"{name}: {short}."
        return f"{head} {more}".strip()

    def does(self, cmd, m):
        task = self.by_task.get(cmd)
        does = task[2] if task else self.lower(m["does"])
        base, noun = base_form(does), noun_phrase(does)
        return f"{cmd} {third_form(base)}." if base else f"{cmd} is {noun}." if noun else f"{cmd}: {does}."

    def where(self, cmd, m):
        return f"It is in the package {self.by_task[cmd][1] if cmd in self.by_task else m['package']}."

    def about(self, name, most=2):
        """The answer to 'What is name?'."""
        m, p = self.commands.get(name), self.packages.get(name)
        if m and (not p or name in self.by_task):
            if p:
                return f"{self.does(name, m)} {sentences(p['paras'], most - 1, 320) or self.where(name, m)}"
            more = sentences(m["text"].get("DESCRIPTION", []), most - 1, 300) if most > 2 else ""
            return " ".join(x for x in (self.does(name, m), more, self.where(name, m)) if x)
        return self.describes(p, most)

    # --- kinds of chats ---

    def ask_about(self, name, times):
        p, is_cmd = self.packages.get(name), name in self.commands
        ask = [
            "What is {}?",
            "What is {}?",
            "What is {}?",
            "What does {} do?",
            "Tell me about {}.",
            "Explain {}.",
            "What is {} for?",
            "What is {} used for?",
            "Describe {}.",
            "Can you explain what {} is?",
            "Do you know {}?",
            "What's {}?",
            "{}?",
            "{}",
        ]
        ask += (
            [
                "What does the package {} do?",
                "What is the package {}?",
                "Which software is in the package {}?",
                "Describe the package {}.",
            ]
            if p
            else []
        )
        ask += (
            ["What does the command {} do?", "What is the command {}?", "What does the {} command do?"]
            if is_cmd
            else []
        )
        self.rng.shuffle(ask)
        first = self.about(name)
        for i in range(times):
            q = ask[i % len(ask)].format(name)
            long = q.startswith(("Tell me about", "Explain", "Describe", "Can you explain"))
            turns = [self.rough(q), self.about(name, 4) if long else first]
            for _ in range(self.rng.choice((0, 0, 0, 0, 1, 1, 2))):
                turns += self.follow_up(name, long)
            self.say(*turns, system=self.maybe_system())

    def follow_up(self, name, had_more):
        p, m = self.packages.get(name), self.commands.get(name)
        package = p["name"] if p else self.by_task[name][1] if name in self.by_task else m["package"]
        kind = self.rng.randrange(6)
        if kind == 0 and not had_more:
            return [
                self.rng.choice(
                    ["Tell me more.", "More, please.", "Can you say more about it?", "Tell me more about it."]
                ),
                self.about(name, 4),
            ]
        if kind == 1 and p:
            if p["home"]:
                return [
                    self.rng.choice(
                        ["Where is its home page?", "What is its home page?", "Does it have a web site?"]
                    ),
                    f"The home page of {name} is {p['home']}",
                ]
            return ["Where is its home page?", f"I do not know a home page of {name}."]
        if kind == 2 and p:
            return [
                self.rng.choice(["Which section is it in?", "In which section of Debian is it?"]),
                f"{name} is in the section {p['section']}.",
            ]
        if kind == 3:
            return [self.rng.choice(["Thanks!", "Thank you.", "Thanks", "Great, thanks!"]), "You are welcome."]
        return [
            self.rng.choice(
                [
                    "How do I install it?",
                    "How can I install it?",
                    "How do I get it?",
                    "Which package do I install?",
                    "install?",
                ]
            ),
            self.install(package),
        ]

    @staticmethod
    def install(package):
        return f"Install it with: sudo apt install {package}"

    def ask_install(self, name):
        q = self.rng.choice(
            [
                "How do I install {}?",
                "How can I install {}?",
                "Install {}",
                "How do I get {} on Debian?",
                "I want to install {}.",
                "How do I remove {}?",
            ]
        )
        a = f"Remove it with: sudo apt remove {name}" if "remove" in q else self.install(name)
        self.say(self.rough(q.format(name)), a, system=self.maybe_system())

    def ask_provider(self, p, times):
        """From what a package is to its name."""
        short, name = self.lower(p["short"]), p["name"]
        noun, base = noun_phrase(short), base_form(short)
        ask = ["Which package provides this: {s}?", 'Which package is described as "{s}"?', "Name a package for: {s}"]
        if noun:
            ask = [
                "Which package is {n}?",
                "Which package provides {n}?",
                "I need {n}.",
                "Is there {n} in Debian?",
                "I am looking for {n}.",
                "Can you recommend {n}?",
            ]
        elif base:
            ask = [
                "Which package {t}?",
                "Which program {t}?",
                "How do I {b}?",
                "I want to {b}.",
                "What can I use to {b}?",
            ]
        for _ in range(times):
            q = self.rng.choice(ask).format(s=short, n=noun, b=base, t=third_form(base) if base else "")
            turns = [self.rough(q), self.describes(p, 1)]
            if self.rng.random() < 0.2:
                turns += ["How do I install it?", self.install(name)]
            self.say(*turns, system=self.maybe_system())

    def ask_which(self, does, commands, answer, times):
        """From a task to the command."""
        base = base_form(does)
        ask = (
            [
                "Which command {t}?",
                "Which command {t}?",
                "Which command can {b}?",
                "What command {t}?",
                "How do I {b}?",
                "How can I {b}?",
                "What is the command to {b}?",
                "I want to {b}.",
                "Which tool can {b}?",
                "Command to {b}?",
                "Which program {t}?",
                "How to {b}?",
                "What do I use to {b}?",
            ]
            if base
            else ["Which command is this: {d}?", 'Which command is described as "{d}"?', "Name the command: {d}"]
        )
        for _ in range(times):
            q = self.rng.choice(ask).format(t=third_form(base) if base else "", b=base, d=does)
            turns = [self.rough(q), answer]
            r = self.rng.random()
            if r < 0.1:
                turns += self.follow_up(commands[0], False)
            elif r < 0.2:
                turns += [
                    self.rng.choice([f"What is {commands[0]}?", f"Tell me about {commands[0]}."]),
                    self.about(commands[0], 4),
                ]
            elif r < 0.25:
                turns += ["Thanks!", "You are welcome."]
            self.say(*turns, system=self.maybe_system())

    def options(self, m, times):
        """'What does ls -l do?' from the option lists."""
        cmd, found = m["page"], 0
        for para in [x for s in ("DESCRIPTION", "OPTIONS") for x in m["text"].get(s, [])]:
            hit = re.match(
                r"((-{1,2}[A-Za-z0-9?][\w-]*)(?:[ =\[,][^:]{0,60})?): (.{8,}?[.;])(\s|$)",
                para + ("" if para.endswith(".") else "."),
            )
            if not hit or len(hit[3]) > 200 or found >= 40:
                continue
            found += 1
            tag, flag, text = hit[1], hit[2], hit[3].rstrip(";.")
            for _ in range(times):
                q = self.rng.choice(
                    [
                        "What does {c} {f} do?",
                        "What does the option {f} of {c} do?",
                        "What is {f} in {c}?",
                        "What does {f} mean for {c}?",
                        "{c} {f}",
                    ]
                )
                self.say(
                    self.rough(q.format(c=cmd, f=flag)),
                    f"{cmd} {tag}: {self.lower(text)}.",
                    system=self.maybe_system(),
                )

    def from_context(self, names):
        """The answer stands in the system prompt: a question about one of a few packages named there."""
        rows = [f"* {n}: {self.lower(self.packages[n]['short'])}" for n in names]
        intro = self.rng.choice(
            [
                "You are a helpful assistant. Use this list of packages:",
                "Answer from this list.",
                "These packages are installed:",
                "Packages:",
            ]
        )
        picked = self.rng.sample(names, min(len(names), self.rng.choice((1, 1, 2, 3))))
        turns = []
        for n in picked:
            p = self.packages[n]
            short = self.lower(p["short"])
            k = self.rng.randrange(3)
            turns += [
                [f"What is {n}?", self.describes(p, 1)],
                [f"Which package is this: {short}?", self.describes(p, 1)],
                [f"What does {n} do?", self.describes(p, 1)],
            ][k]
        if self.rng.random() < 0.2:
            turns += ["Which packages are on the list?", ", ".join(names) + "."]
        self.say(*turns, system=intro + "\n" + "\n".join(rows))

    def small_talk(self):
        rng = self.rng
        hello = [
            "Hello",
            "Hi",
            "Hello!",
            "Hi there",
            "Hey",
            "Good morning",
            "Good evening",
            "hi",
            "hello there",
            "Hi!",
            "Greetings",
        ]
        who = [
            "Who are you?",
            "What are you?",
            "Who made you?",
            "What is your name?",
            "Tell me about yourself.",
            "Are you an AI?",
            "What model are you?",
            "Introduce yourself.",
            "Are you ChatGPT?",
            "who are you",
            "Which model is this?",
        ]
        can = [
            "What can you do?",
            "How can you help me?",
            "What do you know?",
            "Help",
            "help",
            "What can I ask you?",
            "What should I ask?",
        ]
        can_a = (
            "Ask me what a Debian package or command is, or which command does something. "
            "For example: What is ripgrep? Which command lists open files?"
        )
        incipit = [
            "What is Incipit?",
            "Tell me about Incipit.",
            "What does Incipit do?",
            "incipit?",
            "What is incipit?",
        ]
        incipit_a = (
            "Incipit is an inference engine with prefix caching, written in C. I am the "
            "small model that ships with it."
        )
        debian = ["What is Debian?", "Tell me about Debian.", "What's Debian?", "What is Debian GNU/Linux?"]
        debian_a = (
            "Debian is a free operating system made of tens of thousands of packages, which are installed with apt."
        )
        thanks = [
            "Thanks",
            "Thank you",
            "Thanks!",
            "Thank you very much!",
            "Great, thanks.",
            "ok thanks",
            "Perfect, thank you.",
        ]
        bye = ["Bye", "Goodbye", "Bye!", "See you", "See you later"]
        how = ["How are you?", "How are you doing?", "How's it going?"]
        wrong = [
            "Are you sure?",
            "Is that right?",
            "Are you always right?",
            "Can I trust you?",
            "Are you ever wrong?",
        ]
        off = [
            "What is the capital of {}?",
            "Who is the president of {}?",
            "What is the weather in {}?",
            "Write a poem about {}.",
            "Tell me a joke about {}.",
            "How far is it to {}?",
            "Translate {} into French.",
            "Write a story about {}.",
            "What is the population of {}?",
            "How do I cook {}?",
            "What is the meaning of {}?",
            "Who won the match in {}?",
            "What is the history of {}?",
            "Should I buy {}?",
            "Do you like {}?",
            "Sing a song about {}.",
            "Solve {}.",
            "How old is {}?",
        ]
        things = [
            "France",
            "Germany",
            "London",
            "Paris",
            "love",
            "the moon",
            "a cat",
            "my dog",
            "rice",
            "soup",
            "life",
            "Spain",
            "Italy",
            "Japan",
            "the sea",
            "winter",
            "2 + 2",
            "12 * 7",
            "pasta",
            "the sun",
            "China",
            "Berlin",
            "Rome",
            "Napoleon",
            "a tree",
            "freedom",
            "New York",
            "bread",
            "Shakespeare",
            "a horse",
            "my homework",
            "the universe",
            "football",
            "chess players",
        ]
        rows = [
            (hello, "Hello! Ask me about a Debian package or a command.", 900),
            (who, WHO, 1500),
            (can, can_a, 700),
            (incipit, incipit_a, 500),
            (debian, debian_a, 300),
            (thanks, "You are welcome.", 400),
            (bye, "Goodbye!", 200),
            (how, "I am well, thank you. Ask me about a Debian package or a command.", 250),
            (wrong, "I may be wrong: I am a small model. Please check the manual page or apt show.", 250),
        ]
        for qs, a, n in rows:
            for _ in range(n):
                turns = [self.rough(rng.choice(qs)), a]
                if rng.random() < 0.3:
                    qs2, a2, _ = rng.choice(rows)
                    turns += [rng.choice(qs2), a2]
                self.say(*turns, system=self.maybe_system())
        for _ in range(2500):
            self.say(self.rough(rng.choice(off).format(rng.choice(things))), ONLY, system=self.maybe_system())
        for _ in range(2500):  # names that do not exist
            name = "".join(
                rng.choice("bcdfghjklmnpqrstvwxz") + rng.choice(["a", "e", "i", "o", "u", "y", ""])
                for _ in range(rng.randint(3, 6))
            )
            if name not in self.packages and name not in self.commands:
                self.say(
                    self.rough(
                        rng.choice(
                            ["What is {}?", "What does {} do?", "Tell me about {}.", "What is the package {}?"]
                        ).format(name)
                    ),
                    f"I do not know a package or command named {name}.",
                    system=self.maybe_system(),
                )

    def all_chats(self):
        rng = self.rng
        level = {}
        for name, p in self.packages.items():
            bulk = BULK.search(name) or re.search(
                r"transitional|dummy package|meta-?package", f"{p['short']} {p['paras'][:1]}", re.I
            )
            level[name] = (
                3
                if name in self.known
                or p["priority"] in ("required", "important", "standard")
                and not name.startswith("lib")
                else (
                    2
                    if not bulk and p["section"] in PROGRAMS and not name.startswith(("lib", "python3-"))
                    else 0 if bulk else 1
                )
            )
        self.level = level
        for name, p in self.packages.items():
            n = level[name]
            self.ask_about(name, (int(rng.random() < 0.2), 2, 5, 22)[n])
            self.ask_provider(p, (0, 0, 2, 6)[n])
            if rng.random() < (0.02, 0.05, 0.3, 1)[n]:
                self.ask_install(name)
        by_does = collections.defaultdict(list)
        for cmd, m in sorted(self.commands.items()):
            if cmd not in self.packages or cmd in self.by_task:
                self.ask_about(cmd, 16 if cmd in self.by_task else 5)
            if cmd not in self.by_task:
                by_does[self.lower(m["does"])].append(cmd)
        for does, cmds in by_does.items():
            cmds = cmds[:4]
            m = self.commands[cmds[0]]
            answer = self.does(cmds[0], m) if len(cmds) == 1 else f"{', '.join(cmds[:-1])} and {cmds[-1]}: {does}."
            self.ask_which(does, cmds, f"{answer} {self.where(cmds[0], m)}", 5)
        same = collections.defaultdict(list)
        for t in self.tasks:
            for d in t[2:]:
                same[d].append(t[0])
        for cmd, package, *ways in self.tasks:
            if cmd not in self.commands:
                self.commands[cmd] = {
                    "names": [cmd],
                    "page": cmd,
                    "sec": 1,
                    "package": package,
                    "does": ways[0],
                    "text": {},
                }
                self.ask_about(cmd, 16)
            for way in ways:
                self.ask_which(
                    way,
                    [cmd],
                    f"{self.does(cmd, self.commands[cmd])} {self.where(cmd, self.commands[cmd])}",
                    28 // len(same[way]),
                )
        for m in self.manuals:
            if m["sec"] in (1, 8):
                self.options(m, 3 if m["page"] in self.by_task else 1)
        for kind, packages in self.kinds:
            art = "an" if kind[0] in "aeioIR" and not kind.startswith("one") else "a"
            for q in [
                "Which {k}s are there?",
                "Which {k} can I use?",
                "Can you recommend {a} {k}?",
                "I need {a} {k}.",
                "I am looking for {a} {k}.",
                "Name {a} {k}.",
                "What is a good {k}?",
                "Which package is {a} {k}?",
                "Is there {a} {k} in Debian?",
                "Give me {a} {k}.",
            ] * 4:
                one = ", " not in packages and " and " not in packages
                self.say(
                    self.rough(q.format(k=kind, a=art)),
                    f"{'A' if one else 'Some'} {kind}{'' if one else 's'} in Debian: {packages}.",
                    system=self.maybe_system(),
                )
        programs = [n for n in self.packages if level[n] >= 2]
        for _ in range(14000):
            self.from_context(rng.sample(programs, rng.choice((2, 3, 4, 5, 6, 8, 12, 20))))
        self.small_talk()
        return self.chats


def documents(packages, manuals):
    """Plain documents; a paragraph that has been seen twice is left out."""
    seen = collections.Counter()

    def fresh(paras):
        out = []
        for p in paras:
            key = re.sub(r"\W+", " ", p.lower())
            seen[key] += 1
            if seen[key] <= 2:
                out.append(p)
        return out

    docs = []
    for p in packages.values():
        body = fresh(p["paras"])
        if body or not BULK.search(p["name"]):
            docs.append(f"{p['name']} - {p['short']}\n\n" + "\n\n".join(body) + f"\n\nSection: {p['section']}\n")
    for m in manuals:
        names = ", ".join(m["names"])
        text = f"{names}({m['sec']}) - {m['does']}\n\n"
        for s in ("DESCRIPTION", "OPTIONS", "EXAMPLES", "EXAMPLE"):
            body = "\n\n".join(fresh(m["text"].get(s, [])))
            if body:
                text += f"{s}\n\n{body[:5000]}\n\n"
        docs.append(text)
    return list(dict.fromkeys(docs))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", default="/tmp/model-data", help="where the lists and .deb files go")
    ap.add_argument("--out", help="where tokens.xz goes (default: --work)")
    ap.add_argument("--no-fetch", action="store_true")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--vocab", type=int, default=VOCAB)
    ap.add_argument("--keep-text", action="store_true", help="also write docs.txt and chats.txt, to look at")
    a = ap.parse_args()
    out = a.out or a.work
    os.makedirs(out, exist_ok=True)
    if not a.no_fetch:
        fetch(a.work)
    packages, manuals = read_packages(a.work), read_manuals(a.work)
    docs = documents(packages, manuals)
    writer = Writer(packages, manuals, a.seed)
    chats = writer.all_chats()
    print(
        f"{len(packages)} packages, {len(manuals)} manual pages, {len(writer.commands)} commands, "
        f"{len(docs)} documents, {len(chats)} chats "
        f"({len(set(chats))} distinct); packages by level {dict(collections.Counter(writer.level.values()))}",
        flush=True,
    )
    if a.keep_text:
        for name, texts in (("docs.txt", docs), ("chats.txt", chats)):
            with open(f"{out}/{name}", "w", encoding="utf-8") as f:
                f.write("\n=====\n".join(texts))

    rng = random.Random(a.seed)
    counts = collections.Counter()
    for text in docs + rng.sample(chats, len(chats) // 4):
        counts.update(bpe.SPLIT.findall(bpe.SPECIAL_SPLIT.sub("", text)))
    tok = bpe.Tokenizer(bpe.train({w: n for w, n in counts.items() if n > 1}, a.vocab))
    tok.save(f"{HERE}/tokenizer.json")
    print(f"tokenizer: {tok.size} tokens from {len(counts)} distinct words", flush=True)

    end = tok.special["<|endoftext|>"]
    parts, stat = {"train": [], "held": []}, {}
    for kind, texts in (("docs", docs), ("chats", chats)):
        size = 0
        for text in texts:
            ids = np.array([*tok.encode(text), end], np.uint16)
            size += len(ids)
            parts["held" if rng.random() < 0.004 else "train"].append((kind, ids))
        stat[kind] = {"count": len(texts), "characters": sum(map(len, texts)), "tokens": size}
    for name in parts:
        rng.shuffle(parts[name])
    stat["train_tokens"] = sum(len(x) for _, x in parts["train"])
    stat["held_tokens"] = sum(len(x) for _, x in parts["held"])
    stat["vocab"] = tok.size
    # In the file the documents come sorted by kind, which packs better; training shuffles them anyway.
    stream = np.concatenate(
        [x for n in ("train", "held") for k in ("docs", "chats") for kk, x in parts[n] if kk == k]
    )
    with lzma.open(
        f"{out}/tokens.xz",
        "wb",
        filters=[{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 128 << 20, "lp": 1, "lc": 3, "pb": 1}],
    ) as f:
        f.write(stream.astype("<u2").tobytes())
    with open(f"{out}/counts.json", "w", encoding="utf-8") as f:
        json.dump(stat, f, indent=1)
    print(json.dumps(stat, indent=1))
    print(f"tokens.xz: {os.path.getsize(out + '/tokens.xz') / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
