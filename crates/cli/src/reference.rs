//! The command line as a page of the documentation, made from the same description that reads it.

use clap::{Arg, ArgAction, Command};

use crate::cli;

/// What stands above the commands.
const HEAD: &str = "\
# The command line

Every command, its arguments and its options, with examples. `vestal COMMAND --help` prints the same on a terminal.

This page is made from the program: `cargo run -p vestal-cli -- completions --reference > docs/reference/cli.md`.
";

/// The heading under which the help lists what every command takes.
const GLOBAL: &str = "Global options";

/// Returns the page.
pub(crate) fn page() -> String {
    let mut root = cli::command();
    root.build();
    let mut page = format!("{HEAD}\n");
    let verbs: Vec<&Command> = shown(&root).collect();
    let names = verbs.iter().map(|verb| {
        let name = verb.get_name();
        format!("[{name}](#vestal-{name})")
    });
    page.extend([format!("{}\n\n", names.collect::<Vec<_>>().join(" · "))]);
    page.push_str("## vestal\n\n");
    describe(&root, &mut page);
    page.push_str("These options are taken by every command:\n\n");
    table(root.get_arguments().filter(|arg| is_global(arg)), &mut page);
    for verb in verbs {
        section(verb, "##", "vestal", &mut page);
    }
    while page.ends_with("\n\n") {
        page.pop();
    }
    page
}

/// Adds a command and those below it.
fn section(command: &Command, level: &str, path: &str, page: &mut String) {
    let path = format!("{path} {}", command.get_name());
    page.extend([format!("{level} {path}\n\n")]);
    let aliases: Vec<String> =
        command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    describe(command, page);
    if !aliases.is_empty() {
        page.extend([format!("Also called {}.\n\n", aliases.join(", "))]);
    }
    shown(command).for_each(|verb| section(verb, "###", &path, page));
}

/// Adds what a command does, how it is called, what it takes and its examples.
fn describe(command: &Command, page: &mut String) {
    let about = command.get_long_about().or_else(|| command.get_about());
    if let Some(about) = about {
        page.extend([format!("{}\n\n", as_text(&about.to_string()))]);
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    // Further lines stand below the first one.
    let usage: Vec<&str> = usage.lines().map(str::trim).collect();
    page.extend([format!("```text\n{}\n```\n\n", usage.join("\n"))]);
    let own = command.get_arguments().filter(|arg| !is_global(arg) && !arg.is_hide_set());
    table(own.filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version")), page);
    if let Some(after) = command.get_after_help() {
        closing(&after.to_string(), page);
    }
}

/// Returns the commands below one that people are to know.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
}

fn is_global(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(GLOBAL)
}

fn table<'a>(args: impl Iterator<Item = &'a Arg>, page: &mut String) {
    let rows: Vec<String> = args.map(row).collect();
    if !rows.is_empty() {
        page.extend([format!("| | |\n|---|---|\n{}\n\n", rows.join("\n"))]);
    }
}

fn row(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut text = help.map(ToString::to_string).unwrap_or_default().replace("\n\n", " ");
    if arg.get_action().takes_values() {
        let values: Vec<String> = arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        if !values.is_empty() && !arg.is_hide_possible_values_set() {
            text = format!("{} One of {}.", sentence(&text), values.join(", "));
        }
        let defaults: Vec<String> = arg
            .get_default_values()
            .iter()
            .map(|value| format!("`{}`", value.to_string_lossy()))
            .collect();
        if !defaults.is_empty() && !arg.is_hide_default_value_set() {
            text = format!("{} Default: {}.", sentence(&text), defaults.join(", "));
        }
    }
    format!("| {} | {} |", in_cell(&call(arg)), in_cell(&as_text(&text)))
}

/// Returns how an argument is written.
fn call(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let values = names.iter().map(clap::builder::Str::as_str).collect::<Vec<_>>().join(" ");
    let dots = if is_repeatable(arg) { "…" } else { "" };
    if arg.is_positional() {
        return format!("`{values}{dots}`");
    }
    let mut forms: Vec<String> =
        arg.get_short().map(|short| format!("-{short}")).into_iter().collect();
    forms.extend(arg.get_long().map(|long| format!("--{long}")));
    if let Some(last) = forms.last_mut()
        && arg.get_action().takes_values()
    {
        *last = format!("{last} {values}");
    }
    let forms: Vec<String> = forms.iter().map(|form| format!("`{form}`")).collect();
    format!("{}{dots}", forms.join(", "))
}

fn is_repeatable(arg: &Arg) -> bool {
    let several = arg.get_num_args().is_some_and(|number| number.max_values() > 1);
    match arg.get_action() {
        ArgAction::Append => true,
        _ => arg.is_positional() && several,
    }
}

/// Adds the text below the options: paragraphs, then examples, as they are typed.
fn closing(text: &str, page: &mut String) {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| matches!(*line, "Example:" | "Examples:"));
    let (notes, examples) = lines.split_at(start.unwrap_or(lines.len()));
    for block in notes.join("\n").split("\n\n").filter(|block| !block.trim().is_empty()) {
        if block.lines().any(|line| line.starts_with(' ')) {
            page.extend([format!("```text\n{block}\n```\n\n")]);
        } else {
            page.extend([format!("{}\n\n", as_text(block))]);
        }
    }
    if let [_, examples @ ..] = examples {
        let examples: Vec<&str> =
            examples.iter().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
        page.extend([format!("```sh\n{}\n```\n\n", examples.join("\n").trim_end())]);
    }
}

/// Returns a text that ends a sentence.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() || text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

/// Returns text in which nothing outside of backticks is taken for a tag.
fn as_text(text: &str) -> String {
    let mut code = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '`' => code = !code,
            '<' if !code => {
                out.push_str("&lt;");
                continue;
            }
            '*' if !code => out.push('\\'),
            _ => {}
        }
        out.push(c);
    }
    out
}

/// Returns text that stays within one cell of a table.
fn in_cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use clap::error::ErrorKind;

    use super::*;

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
    }

    #[test]
    fn the_committed_reference_is_current() {
        let committed = std::fs::read_to_string(docs().join("reference/cli.md")).unwrap();
        assert!(
            committed == page(),
            "run `cargo run -p vestal-cli -- completions --reference > docs/reference/cli.md`"
        );
    }

    #[test]
    fn what_a_help_text_says_stays_text() {
        assert_eq!(as_text("a <b> `<c>` *"), "a &lt;b> `<c>` \\*");
        assert_eq!(in_cell("a|b\nc "), "a\\|b c");
    }

    /// Returns the words of the first command of a line of shell text.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        let mut chars = line.chars();
        while let Some(c) = chars.next() {
            let last = words.last_mut().unwrap();
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, '\\') => match chars.next() {
                    // A pipe in a cell of a table.
                    None | Some('|') => break,
                    Some(next) => last.push(next),
                },
                (None, '|' | ';' | '&' | '>' | '<') => break,
                (None, '#') if last.is_empty() => break,
                (None, ' ') if !last.is_empty() => words.push(String::new()),
                (None, ' ') => {}
                (_, c) => last.push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// Returns what pages show of the program's command line, in examples and between backticks.
    fn command_lines(page: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for line in page.lines() {
            let typed = line.strip_prefix("$ ").unwrap_or(line);
            if typed.starts_with("vestal ") {
                lines.push(typed.to_owned());
            } else {
                let quoted = line.split('`').skip(1).step_by(2);
                lines.extend(quoted.filter(|text| text.starts_with("vestal ")).map(str::to_owned));
            }
        }
        // With `…` and brackets a line is a pattern, and not typed.
        lines.retain(|line| !line.contains(['…', '[', '{']));
        lines
    }

    #[test]
    fn every_command_on_a_page_is_one_that_the_program_knows() {
        let mut pages: Vec<PathBuf> = ["", "howto"]
            .iter()
            .flat_map(|dir| std::fs::read_dir(docs().join(dir)).unwrap())
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
            .collect();
        pages.push(docs().join("../README.md"));
        let root = cli::command();
        let mut checked = 0;
        let mut unknown = Vec::new();
        for path in pages {
            let page = std::fs::read_to_string(&path).unwrap();
            for line in command_lines(&page) {
                checked += 1;
                let parsed = root.clone().try_get_matches_from(words(&line));
                let kind = parsed.err().map(|error| error.kind());
                if let Some(ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand) = kind {
                    unknown.push(format!("{}: {line}", path.display()));
                }
            }
        }
        assert!(checked > 300, "only {checked} commands were found");
        assert_eq!(unknown, Vec::<String>::new());
    }
}
