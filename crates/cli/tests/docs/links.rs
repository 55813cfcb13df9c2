//! Links of all pages: where each leads is there, and so is the heading that it names. The pages of `docs/` are one
//! book, which needs every page in its list.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{files_below, root};

/// A page: its links and what can be linked to in it.
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

/// Returns the lines of a page without those of its examples.
fn prose(text: &str) -> Vec<&str> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        let start = line.trim_start();
        let marks = start.len() - start.trim_start_matches('`').len();
        match fence {
            None if marks >= 3 => fence = start.get(..marks),
            None => lines.push(line),
            Some(open) if start.trim_end() == open => fence = None,
            Some(_) => {}
        }
    }
    lines
}

/// Returns a line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Returns where the links of a line lead.
fn links(line: &str) -> impl Iterator<Item = String> {
    let line = without_code(line);
    let inline: Vec<String> = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    let defined = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let defined = defined.map(|(_, target)| target.trim().to_owned());
    inline.into_iter().chain(defined)
}

/// Returns what a heading is linked to by.
fn anchor(heading: &str) -> String {
    let mut text = String::new();
    // Of a link in a heading only its words count.
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text.trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn read_page(text: &str) -> Page {
    let lines = prose(text);
    let mut anchors = BTreeSet::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let is_heading =
        |line: &&&str| line.trim_start_matches('#').starts_with(' ') && line.starts_with('#');
    for heading in lines.iter().filter(is_heading) {
        let name = anchor(heading.trim_start_matches('#'));
        let count = seen.entry(name.clone()).or_default();
        anchors.insert(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    Page { links: lines.iter().flat_map(|line| links(line)).collect(), anchors }
}

/// Returns a path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Returns the pages of the project by their paths below its root.
fn pages() -> BTreeMap<PathBuf, Page> {
    let root = root().canonicalize().unwrap();
    let mut files = Vec::new();
    files_below(&root.join("docs"), &mut files);
    files_below(&root.join("crates"), &mut files);
    for entry in fs::read_dir(&root).unwrap() {
        files.push(entry.unwrap().path());
    }
    let in_docs = |path: &Path| path.starts_with(root.join("docs"));
    files
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .filter(|path| in_docs(path) || path.ends_with("README.md") || path.parent() == Some(&root))
        .map(|path| {
            let page = read_page(&fs::read_to_string(&path).unwrap());
            (path.strip_prefix(&root).unwrap().to_owned(), page)
        })
        .collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let root = root();
    let pages = pages();
    let mut broken = Vec::new();
    let mut checked = 0;
    for (path, page) in &pages {
        let relative =
            page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        for link in relative {
            checked += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => plain(&path.parent().unwrap().join(file)),
            };
            let is_there = root.join(&target).exists();
            let has_heading = heading.is_empty()
                || pages.get(&target).is_some_and(|page| page.anchors.contains(heading));
            // The book has nothing of what is outside of it.
            let leaves_the_book = path.starts_with("docs") && !target.starts_with("docs");
            if !is_there || !has_heading || leaves_the_book {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(checked > 100, "only {checked} links were found");
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_page_is_in_the_list_of_the_book_once() {
    let pages = pages();
    let summary = Path::new("docs/SUMMARY.md");
    let listed: Vec<PathBuf> =
        pages[summary].links.iter().map(|link| plain(&Path::new("docs").join(link))).collect();
    let is_listed_once = |page: &&PathBuf| listed.iter().filter(|other| other == page).count() == 1;
    let in_the_book = pages.keys().filter(|path| path.starts_with("docs") && *path != summary);
    let wrong: Vec<&PathBuf> = in_the_book.filter(|page| !is_listed_once(page)).collect();
    assert_eq!(wrong, Vec::<&PathBuf>::new(), "not in docs/SUMMARY.md, or twice");
}

#[test]
fn links_and_headings_are_read_as_markdown_means_them() {
    let page = read_page(
        "# A `b` [c](d.md): e?\n[x](y.md#z) `[no](no.md)`\n```\n[no](no.md)\n# no\n```\n## Same\n## Same\n[r]: s.md\n",
    );
    assert_eq!(page.links, ["d.md", "y.md#z", "s.md"]);
    let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
    assert_eq!(anchors, ["a-b-c-e", "same", "same-1"]);
}
