//! The commands there are.

use super::command::{
    ArgumentKind, ArgumentStyle, CommandGroup, CommandKind, CommandTiming, CommandWord,
    SlashCommand,
};

/// A command about the conversation, between turns, that takes nothing.
const PLAIN: SlashCommand = SlashCommand {
    name: "",
    aliases: &[],
    arguments: "",
    summary: "",
    group: CommandGroup::Conversation,
    kind: CommandKind::Conversation,
    timing: CommandTiming::BetweenTurns,
    takes: ArgumentStyle::Nothing,
    words: &[],
    details: "",
};

const fn word(word: &'static str, about: &'static str) -> CommandWord {
    CommandWord { word, value: None, about }
}

const fn value(value: ArgumentKind, about: &'static str) -> CommandWord {
    CommandWord { word: "", value: Some(value), about }
}

const fn word_of(word: &'static str, value: ArgumentKind, about: &'static str) -> CommandWord {
    CommandWord { word, value: Some(value), about }
}

/// Words of a verb, which has its own help and completion.
const OF_VERB: &[CommandWord] = &[value(ArgumentKind::Verb, "")];

/// All commands, in the order of the help.
pub static COMMANDS: &[SlashCommand] = &[
    SlashCommand {
        name: "new",
        aliases: &["reset", "clear"],
        arguments: "[TITLE]",
        summary: "begin a new conversation in the same sandbox",
        takes: ArgumentStyle::Text,
        details: "\
Files, installed tools and background jobs stay: the sandbox is the same. The shell is a new one, the model is the \
configured one, and nothing is approved beforehand.
The conversation so far is kept: /resume goes back to it.",
        ..PLAIN
    },
    SlashCommand {
        name: "resume",
        aliases: &["continue"],
        arguments: "[NAME]",
        summary: "go on with an earlier conversation",
        takes: ArgumentStyle::Text,
        words: &[value(ArgumentKind::Conversation, "")],
        details: "\
NAME is an id, a beginning or the last part of one, or a title. Without one the latest are listed to choose from.
It continues in its own sandbox and with its own model.",
        ..PLAIN
    },
    SlashCommand {
        name: "sessions",
        aliases: &["conversations"],
        arguments: "[VERB …]",
        summary: "list, show and search conversations",
        kind: CommandKind::Verb(&["conversations"]),
        takes: ArgumentStyle::Words,
        words: OF_VERB,
        details: "The same as `vestal conversations`; without words, its list.",
        ..PLAIN
    },
    SlashCommand {
        name: "branch",
        arguments: "[TITLE]",
        summary: "go another way from here, in a copy",
        takes: ArgumentStyle::Text,
        details: "\
The chat continues in the copy; the conversation so far stays as it is, and /resume goes back to it. Both work in the same \
sandbox, each with its own shell.",
        ..PLAIN
    },
    SlashCommand {
        name: "title",
        aliases: &["rename"],
        arguments: "[TITLE]",
        summary: "show or change the title",
        takes: ArgumentStyle::Text,
        ..PLAIN
    },
    SlashCommand {
        name: "undo",
        arguments: "[N]",
        summary: "take back the last turn, or the last N",
        takes: ArgumentStyle::Words,
        words: &[value(ArgumentKind::Number, "")],
        details: "\
The model sees them no more, here and wherever the conversation is resumed. What was done in the sandbox stays done; \
/sandbox restore goes back there.",
        ..PLAIN
    },
    SlashCommand {
        name: "retry",
        summary: "take back the last turn and say it again",
        ..PLAIN
    },
    SlashCommand {
        name: "compress",
        aliases: &["compact"],
        summary: "sum up what is long past, to make room",
        details: "\
The last messages stay word for word. What gives way to the summary stays in the store, and a search finds it.",
        ..PLAIN
    },
    SlashCommand {
        name: "copy",
        arguments: "[N | code]",
        summary: "copy the last answer, or code of it",
        kind: CommandKind::Terminal,
        timing: CommandTiming::AtOnce,
        takes: ArgumentStyle::Words,
        words: &[
            value(ArgumentKind::Number, ""),
            word("code", "its block of code; of several, one to choose"),
        ],
        details: "\
It goes into the clipboard: with wl-copy, xclip or xsel where there is a display, with tmux in tmux, and else through \
the terminal (OSC 52), which takes about 74 kB. N is the number of a block of code.",
        ..PLAIN
    },
    SlashCommand {
        name: "save",
        aliases: &["export"],
        arguments: "[FILE] [--json]",
        summary: "write the conversation to a file",
        kind: CommandKind::Terminal,
        timing: CommandTiming::AtOnce,
        takes: ArgumentStyle::Words,
        words: &[word("--json", "lines of JSON, with everything that is stored")],
        details: "\
Markdown, or JSON where the name ends with .json or .jsonl, as `vestal conversations export` writes it. A file that \
exists is never overwritten, and only you can read the new one.",
        ..PLAIN
    },
    SlashCommand {
        name: "status",
        summary: "show where things stand",
        timing: CommandTiming::AtOnce,
        ..PLAIN
    },
    SlashCommand {
        name: "usage",
        aliases: &["cost"],
        summary: "show tokens and cost, by model",
        timing: CommandTiming::AtOnce,
        ..PLAIN
    },
    SlashCommand {
        name: "stop",
        arguments: "[--yes]",
        summary: "interrupt the turn, end background jobs",
        timing: CommandTiming::AtOnce,
        takes: ArgumentStyle::Words,
        details: "\
While a turn runs it is interrupted. Otherwise the background jobs of this conversation are ended, after a question \
unless --yes is given.",
        ..PLAIN
    },
    SlashCommand {
        name: "quit",
        aliases: &["exit", "q"],
        summary: "leave; the sandbox stays",
        kind: CommandKind::Terminal,
        timing: CommandTiming::AtOnce,
        ..PLAIN
    },
    SlashCommand {
        name: "model",
        aliases: &["models"],
        arguments: "[NAME | list | --global NAME]",
        summary: "choose the model, or show them all",
        group: CommandGroup::Agent,
        takes: ArgumentStyle::Words,
        words: &[
            value(ArgumentKind::Model, ""),
            word("list", "what the providers offer, as `vestal model` shows it"),
            word_of("--global", ArgumentKind::Model, "for all conversations, as `vestal model set`"),
        ],
        details: "\
NAME is MODEL or PROVIDER:MODEL, and asked in this conversation only, also when it is resumed. Without words there is a \
list to choose from; --refresh asks the providers again and shows theirs.",
        ..PLAIN
    },
    SlashCommand {
        name: "reasoning",
        aliases: &["effort", "think"],
        arguments: "[EFFORT] [TOKENS] | default",
        summary: "show or choose how much the model thinks",
        group: CommandGroup::Agent,
        takes: ArgumentStyle::Words,
        words: &[
            word("auto", "as much as the provider sees fit"),
            word("none", "it does not think before it answers"),
            word("minimal", "as little as it can"),
            word("low", "a little"),
            word("medium", "as much as most tasks need"),
            word("high", "much"),
            word("xhigh", "as much as it can"),
            word("default", "as the settings say"),
        ],
        details: "\
It counts in this conversation only, also when it is resumed. TOKENS (16000, 16k) is what it may think with where the \
provider takes a number, and goes before EFFORT there. A model that cannot be told is asked without it.
For all conversations: model.reasoning_effort and model.thinking_budget, and model.reasoning for single models.",
        ..PLAIN
    },
    SlashCommand {
        name: "plan",
        arguments: "[on | off | WORDS]",
        summary: "have it plan first; nothing is changed",
        group: CommandGroup::Agent,
        timing: CommandTiming::AtOnce,
        takes: ArgumentStyle::Text,
        words: &[word("on", "only read, and present a plan"), word("off", "work again")],
        details: "\
In plan mode the agent only reads, and presents a plan; calls that change something are refused. Once you approve the \
plan it carries it out. WORDS turn plan mode on and say what to plan. It acts at once, also while a turn runs, and in \
this conversation only, also when it is resumed. On a terminal Shift-Tab does the same.",
        ..PLAIN
    },
    SlashCommand {
        name: "tools",
        arguments: "[enable | disable NAME…]",
        summary: "show tools, switch them on and off",
        group: CommandGroup::Agent,
        takes: ArgumentStyle::Words,
        words: &[
            word_of("enable", ArgumentKind::Tool, "give the model a tool or a toolset"),
            word_of("disable", ArgumentKind::Tool, "take a tool or a toolset from it"),
        ],
        details: "NAME is a tool or a toolset. It counts for this conversation only.",
        ..PLAIN
    },
    SlashCommand {
        name: "yolo",
        arguments: "[on | off]",
        summary: "stop asking before what is dangerous",
        group: CommandGroup::Agent,
        timing: CommandTiming::AtOnce,
        takes: ArgumentStyle::Words,
        words: &[word("on", "do not ask"), word("off", "ask again")],
        details: "\
It acts at once, also on a question that is being asked, and only on this conversation; /new begins without. What is \
never allowed stays refused.",
        ..PLAIN
    },
    SlashCommand {
        name: "approvals",
        arguments: "[forget N | forget all]",
        summary: "show or take back what was approved",
        group: CommandGroup::Agent,
        timing: CommandTiming::AtOnce,
        takes: ArgumentStyle::Words,
        words: &[word_of("forget", ArgumentKind::Approval, "ask about it again")],
        ..PLAIN
    },
    SlashCommand {
        name: "sandbox",
        aliases: &["box"],
        arguments: "[VERB …]",
        summary: "show where it works; change that",
        group: CommandGroup::Sandbox,
        takes: ArgumentStyle::Words,
        words: &[
            word("snapshot", "keep a copy to go back to"),
            word("snapshots", "list the copies"),
            word_of("restore", ArgumentKind::Snapshot, "go back to a copy"),
            word_of("fork", ArgumentKind::Task, "make a new sandbox that is a copy"),
            word_of("switch", ArgumentKind::Task, "go on in another task's sandbox"),
            word("rebuild", "rebuild it with the current settings"),
            word("stop", "end its processes, keep its files"),
            word("reset", "rebuild it and delete everything in it"),
        ],
        details: "\
The verbs are those of the command line, for this sandbox: more about each with `vestal snapshot --help` and so on. What \
takes something away is asked about first.",
        ..PLAIN
    },
    SlashCommand {
        name: "jobs",
        arguments: "[ID | follow ID | kill ID]",
        summary: "show, follow and kill background jobs",
        group: CommandGroup::Sandbox,
        timing: CommandTiming::AtOnce,
        takes: ArgumentStyle::Words,
        words: &[
            value(ArgumentKind::Job, ""),
            word_of("follow", ArgumentKind::Job, "show what it prints until it ends; Ctrl-C leaves"),
            word_of("kill", ArgumentKind::Job, "end it with everything it started"),
        ],
        details: "ID is a job's, or a beginning of it. `--all` lists those that have ended, too.",
        ..PLAIN
    },
    SlashCommand {
        name: "memory",
        arguments: "[VERB …]",
        summary: "what is remembered, as `vestal memory`",
        group: CommandGroup::Around,
        kind: CommandKind::Verb(&["memory"]),
        takes: ArgumentStyle::Words,
        words: OF_VERB,
        ..PLAIN
    },
    SlashCommand {
        name: "skills",
        arguments: "[VERB …]",
        summary: "skills it can use, as `vestal skills`",
        group: CommandGroup::Around,
        kind: CommandKind::Verb(&["skills"]),
        takes: ArgumentStyle::Words,
        words: OF_VERB,
        ..PLAIN
    },
    SlashCommand {
        name: "mcp",
        arguments: "[VERB …]",
        summary: "servers with tools, as `vestal mcp`",
        group: CommandGroup::Around,
        kind: CommandKind::Verb(&["mcp"]),
        takes: ArgumentStyle::Words,
        words: OF_VERB,
        ..PLAIN
    },
    SlashCommand {
        name: "kanban",
        aliases: &["board"],
        arguments: "[VERB …]",
        summary: "the board, as `vestal kanban`",
        group: CommandGroup::Around,
        kind: CommandKind::Verb(&["kanban"]),
        takes: ArgumentStyle::Words,
        words: OF_VERB,
        ..PLAIN
    },
    SlashCommand {
        name: "profile",
        aliases: &["profiles"],
        arguments: "[VERB …]",
        summary: "isolated homes, as `vestal profile`",
        group: CommandGroup::Around,
        kind: CommandKind::Verb(&["profile"]),
        takes: ArgumentStyle::Words,
        words: OF_VERB,
        ..PLAIN
    },
    SlashCommand {
        name: "config",
        aliases: &["settings"],
        arguments: "[VERB …]",
        summary: "the settings, as `vestal config`",
        group: CommandGroup::Around,
        kind: CommandKind::Verb(&["config"]),
        takes: ArgumentStyle::Words,
        words: OF_VERB,
        details: "\
A model's address and key count from the next turn on, what else is set about models and tools for conversations that \
are opened afterwards, and the rest for chats that are begun afterwards.",
        ..PLAIN
    },
    SlashCommand {
        name: "help",
        aliases: &["?"],
        arguments: "[COMMAND | keys]",
        summary: "this page, or more about a command or keys",
        group: CommandGroup::Around,
        timing: CommandTiming::AtOnce,
        takes: ArgumentStyle::Words,
        words: &[value(ArgumentKind::Command, "")],
        ..PLAIN
    },
];

/// Returns the command of a name or an alias, however it is capitalised.
pub fn find(name: &str) -> Option<&'static SlashCommand> {
    COMMANDS.iter().find(|command| command.names().any(|known| known.eq_ignore_ascii_case(name)))
}
