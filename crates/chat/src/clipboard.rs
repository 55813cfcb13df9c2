//! The clipboard: images from it, and text into it.
//!
//! The clipboard belongs to the display that the user sits at. Programs of this machine reach it where
//! there is a display; else, as over ssh, the terminal is asked.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use vestal_config::Environment;
use vestal_model::Image;
use vestal_tui::format;

/// How long a program for the clipboard may take. One that asks another program for a large image
/// takes a while; one whose display is gone never ends.
const TOOL_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of text that are taken from the clipboard.
const MOST_TEXT: u64 = 4 << 20;

/// Kinds of images, the best first.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];

/// What is in the clipboard.
#[derive(Debug)]
pub(crate) enum ClipboardContent {
    Image(Image),
    Text(String),
}

/// Why nothing was taken from the clipboard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClipboardError {
    /// There is no display, or no program to ask it with.
    #[error("no program here reaches the clipboard")]
    NoTool,
    #[error("there is neither an image nor text in the clipboard")]
    Empty,
    #[error(
        "the image in the clipboard is larger than the limit of {}",
        format::bytes(Image::MOST_BYTES)
    )]
    TooLarge,
    #[error("{tool} failed to read the clipboard: {reason}")]
    Failed { tool: &'static str, reason: String },
}

impl ClipboardError {
    /// Returns what to do about it.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            Self::NoTool => {
                "install wl-clipboard (Wayland) or xclip (X11); over ssh, save the image to a file \
                 and name it: @picture.png"
            }
            Self::Empty => "copy an image first; files are named: @picture.png",
            Self::TooLarge => "make it smaller",
            Self::Failed { .. } => "save the image to a file and name it: @picture.png",
        }
    }
}

/// A program that reads the clipboard.
#[derive(Debug, Clone, Copy)]
struct Reader {
    name: &'static str,
    /// Lists the kinds of what is there.
    types: &'static [&'static str],
    /// Reads one kind, which follows.
    read: &'static [&'static str],
    /// What comes after it.
    rest: &'static [&'static str],
}

const WL_PASTE: Reader = Reader {
    name: "wl-paste",
    types: &["--list-types"],
    read: &["--no-newline", "--type"],
    rest: &[],
};

const XCLIP: Reader = Reader {
    name: "xclip",
    types: &["-selection", "clipboard", "-t", "TARGETS", "-o"],
    read: &["-selection", "clipboard", "-t"],
    rest: &["-o"],
};

/// Reads an image from the clipboard, or text where there is no image.
pub(crate) async fn read(environment: &Environment) -> Result<ClipboardContent, ClipboardError> {
    let wayland = has(environment, "WAYLAND_DISPLAY").then_some(WL_PASTE);
    let x11 = has(environment, "DISPLAY").then_some(XCLIP);
    for reader in wayland.into_iter().chain(x11) {
        if let Some(program) = find_program(environment, reader.name) {
            return read_with(reader, program).await;
        }
    }
    Err(ClipboardError::NoTool)
}

async fn read_with(reader: Reader, program: PathBuf) -> Result<ClipboardContent, ClipboardError> {
    let failed = |reason: String| ClipboardError::Failed { tool: reader.name, reason };
    let types = match output(&program, reader.types, MOST_TEXT).await {
        Ok(types) => String::from_utf8_lossy(&types).into_owned(),
        // Both end with a failure where nothing was copied.
        Err(ToolError::Exit) => return Err(ClipboardError::Empty),
        Err(error) => return Err(failed(error.to_string())),
    };
    let types: Vec<&str> = types.lines().map(str::trim).collect();
    let read = |kind: &'static str, most: u64| {
        let arguments: Vec<&str> =
            reader.read.iter().copied().chain([kind]).chain(reader.rest.iter().copied()).collect();
        let program = program.clone();
        async move { output(&program, &arguments, most).await }
    };
    if let Some(kind) = IMAGE_TYPES.into_iter().find(|kind| types.contains(kind)) {
        let bytes = read(kind, Image::MOST_BYTES + 1).await;
        return image(&bytes.map_err(|error| failed(error.to_string()))?);
    }
    let text = ["text/plain;charset=utf-8", "UTF8_STRING", "text/plain", "TEXT", "STRING"];
    let Some(kind) = text.into_iter().find(|kind| types.contains(kind)) else {
        return Err(ClipboardError::Empty);
    };
    let bytes = read(kind, MOST_TEXT).await.map_err(|error| failed(error.to_string()))?;
    if bytes.is_empty() {
        return Err(ClipboardError::Empty);
    }
    Ok(ClipboardContent::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

fn image(bytes: &[u8]) -> Result<ClipboardContent, ClipboardError> {
    if bytes.len() as u64 > Image::MOST_BYTES {
        return Err(ClipboardError::TooLarge);
    }
    Image::from_bytes(bytes).map(ClipboardContent::Image).ok_or(ClipboardError::Empty)
}

/// What a terminal hands over of its clipboard, piece by piece.
#[derive(Debug, Default)]
pub(crate) struct TerminalClipboard {
    image: Vec<u8>,
    text: Vec<u8>,
    /// The kind of image of which there were pieces first; others are left out.
    kind: Option<String>,
}

impl TerminalClipboard {
    /// Takes a piece.
    pub(crate) fn push(&mut self, kind: &str, bytes: &[u8]) -> Result<(), ClipboardError> {
        if kind.starts_with("image/") {
            if self.kind.get_or_insert_with(|| kind.to_owned()) == kind {
                self.image.extend_from_slice(bytes);
            }
            if self.image.len() as u64 > Image::MOST_BYTES {
                return Err(ClipboardError::TooLarge);
            }
        } else if kind == "text/plain" && (self.text.len() + bytes.len()) as u64 <= MOST_TEXT {
            self.text.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Returns what it was.
    pub(crate) fn content(self) -> Result<ClipboardContent, ClipboardError> {
        if !self.image.is_empty() {
            return image(&self.image);
        }
        if self.text.is_empty() {
            return Err(ClipboardError::Empty);
        }
        Ok(ClipboardContent::Text(String::from_utf8_lossy(&self.text).into_owned()))
    }
}

/// How text reached the clipboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopiedBy {
    /// A program put it there.
    Tool(&'static str),
    /// It is in a buffer of tmux, which hands it to the terminal if it may.
    Tmux,
}

/// Programs that put their input into the clipboard of a display.
const WRITERS: [(&str, &str, &[&str]); 3] = [
    ("WAYLAND_DISPLAY", "wl-copy", &[]),
    ("DISPLAY", "xclip", &["-selection", "clipboard", "-in"]),
    ("DISPLAY", "xsel", &["--clipboard", "--input"]),
];

/// Puts text into the clipboard with a program of this machine; nothing where none can.
pub(crate) async fn write(environment: &Environment, text: &str) -> Option<CopiedBy> {
    // Over ssh the display of this machine is not the one that the user sits at.
    let is_remote = has(environment, "SSH_CONNECTION") || has(environment, "SSH_TTY");
    for (display, name, arguments) in WRITERS {
        if !is_remote
            && has(environment, display)
            && let Some(program) = find_program(environment, name)
            && input(&program, arguments, text).await.is_ok()
        {
            return Some(CopiedBy::Tool(name));
        }
    }
    if has(environment, "TMUX")
        && let Some(program) = find_program(environment, "tmux")
        && input(&program, &["load-buffer", "-w", "-"], text).await.is_ok()
    {
        return Some(CopiedBy::Tmux);
    }
    None
}

fn has(environment: &Environment, name: &str) -> bool {
    environment.get(name).is_some_and(|value| !value.is_empty())
}

/// Finds a program in `PATH`.
fn find_program(environment: &Environment, name: &str) -> Option<PathBuf> {
    let path = environment.get("PATH")?;
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|program| program.is_file())
}

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    #[error("it did not end within {} s", TOOL_TIMEOUT.as_secs())]
    Timeout,
    #[error("it ended with an error")]
    Exit,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Returns what a program prints, at most so many bytes.
async fn output(program: &Path, arguments: &[&str], most: u64) -> Result<Vec<u8>, ToolError> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let printed = child.stdout.take();
    let reading = async {
        let mut bytes = Vec::new();
        if let Some(printed) = printed {
            printed.take(most).read_to_end(&mut bytes).await?;
        }
        let is_whole = (bytes.len() as u64) < most;
        // What is too much need not be printed to its end.
        if is_whole && !child.wait().await?.success() {
            return Err(ToolError::Exit);
        }
        Ok(bytes)
    };
    tokio::time::timeout(TOOL_TIMEOUT, reading).await.map_err(|_| ToolError::Timeout)?
}

/// Gives a program its input. It may leave a process behind that serves the clipboard.
async fn input(program: &Path, arguments: &[&str], text: &str) -> Result<(), ToolError> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let given = child.stdin.take();
    let writing = async {
        if let Some(mut given) = given {
            given.write_all(text.as_bytes()).await?;
        }
        if child.wait().await?.success() { Ok(()) } else { Err(ToolError::Exit) }
    };
    tokio::time::timeout(TOOL_TIMEOUT, writing).await.map_err(|_| ToolError::Timeout)?
}

/// Images that were pasted into the input. Each stands in it by its label.
#[derive(Debug, Default)]
pub(crate) struct PastedImages {
    images: Vec<(String, Image)>,
    /// Counts all that were pasted.
    count: usize,
}

/// Characters of base64 that are kept of pasted images; the oldest go first.
const MOST_PASTED: usize = 64 << 20;

impl PastedImages {
    /// Keeps an image and returns the label to put into the input.
    pub(crate) fn keep(&mut self, image: Image) -> String {
        self.count += 1;
        let padding = image.data.len() - image.data.trim_end_matches('=').len();
        let size = (image.data.len() / 4 * 3).saturating_sub(padding) as u64;
        let label = format!("[image {}: {}]", self.count, format::bytes(size));
        self.images.push((label.clone(), image));
        while self.images.len() > 1
            && self.images.iter().map(|(_, image)| image.data.len()).sum::<usize>() > MOST_PASTED
        {
            self.images.remove(0);
        }
        label
    }

    /// Reports whether a text has the label of an image in it.
    pub(crate) fn names_any(&self, text: &str) -> bool {
        self.images.iter().any(|(label, _)| text.contains(label.as_str()))
    }

    /// Returns the images whose labels are in a text, in the order in which they were pasted.
    pub(crate) fn named(&self, text: &str) -> Vec<Image> {
        let named = self.images.iter().filter(|(label, _)| text.contains(label.as_str()));
        named.map(|(_, image)| image.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n rest";

    /// An environment whose `PATH` has one program in it, with this text.
    fn with_program(dir: &Path, name: &str, script: &str, display: &str) -> Environment {
        let program = dir.join(name);
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = dir.display().to_string();
        Environment::from_pairs([("PATH", path), (display, ":0".to_owned())])
    }

    #[tokio::test]
    async fn an_image_is_preferred_and_text_is_taken_where_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("shot"), PNG).unwrap();
        let script = format!(
            "case $* in *TARGETS*) printf 'TIMESTAMP\\ntext/plain\\nimage/png\\n';; \
             *image/png*) exec /bin/cat {}/shot;; esac",
            dir.path().display()
        );
        let environment = with_program(dir.path(), "xclip", &script, "DISPLAY");
        let found = read(&environment).await.unwrap();
        assert!(matches!(&found, ClipboardContent::Image(it) if it.media_type == "image/png"));
        let script = "case $* in *--list-types*) echo text/plain;; *) printf 'some words';; esac";
        let environment = with_program(dir.path(), "wl-paste", script, "WAYLAND_DISPLAY");
        let found = read(&environment).await.unwrap();
        assert!(matches!(&found, ClipboardContent::Text(text) if text == "some words"));
    }

    #[tokio::test]
    async fn a_clipboard_that_gives_nothing_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let nothing = Environment::from_pairs([("PATH", dir.path().display().to_string())]);
        assert_eq!(read(&nothing).await.unwrap_err(), ClipboardError::NoTool);
        let environment = with_program(dir.path(), "xclip", "exit 1", "DISPLAY");
        assert_eq!(read(&environment).await.unwrap_err(), ClipboardError::Empty);
        let script = "case $* in *TARGETS*) echo image/png;; *) exit 3;; esac";
        let environment = with_program(dir.path(), "xclip", script, "DISPLAY");
        assert!(matches!(read(&environment).await.unwrap_err(), ClipboardError::Failed { .. }));
        let endless = "case $* in *TARGETS*) echo image/png;; *) exec /bin/cat /dev/zero;; esac";
        let environment = with_program(dir.path(), "xclip", endless, "DISPLAY");
        assert_eq!(read(&environment).await.unwrap_err(), ClipboardError::TooLarge);
    }

    #[tokio::test]
    async fn text_goes_to_the_program_of_the_display_but_not_over_ssh() {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("exec /bin/cat > {}/got", dir.path().display());
        let environment = with_program(dir.path(), "xclip", &script, "DISPLAY");
        assert_eq!(write(&environment, "ünd").await, Some(CopiedBy::Tool("xclip")));
        assert_eq!(std::fs::read_to_string(dir.path().join("got")).unwrap(), "ünd");
        let pairs = [
            ("PATH", dir.path().display().to_string()),
            ("DISPLAY", ":10".to_owned()),
            ("SSH_CONNECTION", "1 2 3 4".to_owned()),
        ];
        assert_eq!(write(&Environment::from_pairs(pairs), "x").await, None);
    }

    #[test]
    fn an_image_goes_along_as_long_as_its_label_stands() {
        let mut pasted = PastedImages::default();
        let image = Image::from_bytes(PNG).unwrap();
        let one = pasted.keep(image.clone());
        let two = pasted.keep(image);
        assert_ne!(one, two);
        assert_eq!(pasted.named(&format!("{two} and {one}")).len(), 2);
        assert_eq!(pasted.named(&format!("only {two}")).len(), 1);
        assert!(!pasted.names_any("[image 3: 9 B]"));
    }
}
