//! Files of the board that a worker finds in its sandbox.

use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt as _;
use vestal_board::{Attachment, Board, HandedOver, Task};
use vestal_model::Image;
use vestal_sandbox::Sandbox;
use vestal_sandbox::files::{FileError, Files, Parents, WriteOptions};

use crate::place::{Place, PlaceError, failed};

/// Files and bytes of the tasks before that are copied. What is beyond is named, with its size.
const MOST_FILES: usize = 200;
const MOST_BYTES: u64 = 256 << 20;

/// Pictures that the model is shown, and bytes of all of them. A request of that
/// size is taken by every provider; what is beyond is named by its path.
const MOST_PICTURES: usize = 10;
const MOST_PICTURE_BYTES: u64 = Image::MOST_BYTES;

/// What was laid out for a worker, by paths of its sandbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The whole text of the task, where the worker is told only its beginning.
    pub(crate) text: Option<PathBuf>,
    /// The task's own files.
    pub(crate) own: Vec<PathBuf>,
    /// The files that the tasks before it left, in a directory for each task.
    pub(crate) handed_over: Vec<PathBuf>,
    /// What was not copied, and why.
    pub(crate) left_out: Vec<String>,
    /// Which of the files are pictures that the model is shown, in that order.
    pub(crate) pictures: Vec<Picture>,
    /// Which are pictures that it is not shown, because there are too many or they
    /// are too large.
    pub(crate) pictures_not_shown: Vec<PathBuf>,
}

/// A picture, and where it is in the sandbox.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) path: PathBuf,
    pub(crate) image: Image,
    /// Bytes of the file.
    pub(crate) size: u64,
}

/// What files are taken from and put into.
struct Copier<'a> {
    board: &'a Board,
    files: Files,
}

/// Why a file of a task before was not copied.
enum Missing {
    /// The board does not have it here.
    Source(String),
    /// The sandbox does not take it.
    Target(PlaceError),
}

impl Place {
    /// Copies what the board has for the task to where the model can read it: beside the place it
    /// works in, in a directory of the sandbox's own, so that every profile and backend sees it and a
    /// directory of the host is left alone.
    pub(crate) async fn lay_out(
        &self,
        sandbox: &Sandbox,
        board: &Board,
        task: &Task,
        own: &[Attachment],
        handed_over: &[HandedOver],
    ) -> Result<Layout, PlaceError> {
        let mut layout = Layout::default();
        if own.is_empty() && handed_over.is_empty() && !task.is_told_in_part() {
            return Ok(layout);
        }
        let copier = Copier { board, files: sandbox.files(None).await? };
        if task.is_told_in_part() {
            let to = self.side.join("task.md");
            let body = &mut task.body.as_bytes();
            copier.files.write_from(&to, body, options()).await.map_err(failed("write", &to))?;
            layout.text = Some(to);
        }
        for attachment in own {
            let to = self.side.join("attachments").join(&attachment.filename);
            match copier.copy(attachment, &to).await {
                Ok(()) => {
                    copier.show(attachment, &to, &mut layout).await;
                    layout.own.push(to);
                }
                Err(Missing::Source(why)) => {
                    layout.left_out.push(format!("{}: {why}", attachment.filename));
                }
                Err(Missing::Target(error)) => return Err(error),
            }
        }
        let mut bytes = 0;
        for HandedOver { task, files } in handed_over {
            for attachment in files {
                let to = self.side.join("parents").join(task.as_str()).join(&attachment.filename);
                let named = || format!("{} of {task}", attachment.filename);
                let fits =
                    layout.handed_over.len() < MOST_FILES && bytes + attachment.size <= MOST_BYTES;
                if !fits {
                    let size = attachment.size;
                    layout.left_out.push(format!("{}: {size} bytes, too much to copy", named()));
                    continue;
                }
                match copier.copy(attachment, &to).await {
                    Ok(()) => {
                        bytes += attachment.size;
                        copier.show(attachment, &to, &mut layout).await;
                        layout.handed_over.push(to);
                    }
                    Err(Missing::Source(why)) => {
                        layout.left_out.push(format!("{}: {why}", named()));
                    }
                    Err(Missing::Target(error)) => return Err(error),
                }
            }
        }
        Ok(layout)
    }
}

impl Copier<'_> {
    async fn copy(&self, attachment: &Attachment, to: &Path) -> Result<(), Missing> {
        if attachment.host != self.board.host().name {
            return Err(Missing::Source(format!("it is on the host {}", attachment.host)));
        }
        let from = self.board.attachment_path(attachment);
        let mut from = tokio::fs::File::open(from).await.map_err(|error| {
            Missing::Source(format!("the board's copy cannot be read: {error}"))
        })?;
        let written = self.files.write_from(to, &mut from, options()).await;
        written.map(drop).map_err(|error: FileError| Missing::Target(failed("copy", to)(error)))
    }
}

impl Copier<'_> {
    /// Adds a copied file to what the model is shown, if it is a picture.
    async fn show(&self, attachment: &Attachment, to: &Path, layout: &mut Layout) {
        let path = to.to_owned();
        let shown: u64 = layout.pictures.iter().map(|picture| picture.size).sum();
        let left = MOST_PICTURE_BYTES.saturating_sub(shown);
        let left = if layout.pictures.len() < MOST_PICTURES { left } else { 0 };
        match read_picture(&self.board.attachment_path(attachment), left).await {
            Ok(Read::Picture(image, size)) => {
                layout.pictures.push(Picture { path, image, size });
            }
            Ok(Read::TooLarge) => layout.pictures_not_shown.push(path),
            Ok(Read::NoPicture) => {}
            // It was copied a moment ago: the model finds it there all the same.
            Err(error) => {
                tracing::debug!(%error, name = attachment.filename, "not read as a picture");
            }
        }
    }
}

/// What a file is to a model that sees.
enum Read {
    Picture(Image, u64),
    TooLarge,
    NoPicture,
}

/// Reads a file of at most `most` bytes if its content says that it is a picture.
async fn read_picture(path: &Path, most: u64) -> std::io::Result<Read> {
    let mut file = tokio::fs::File::open(path).await?;
    let mut bytes = Vec::new();
    (&mut file).take(Image::HEAD as u64).read_to_end(&mut bytes).await?;
    if !Image::begins_with(&bytes) {
        return Ok(Read::NoPicture);
    }
    let rest = (most + 1).saturating_sub(bytes.len() as u64);
    file.take(rest).read_to_end(&mut bytes).await?;
    let size = bytes.len() as u64;
    if size > most {
        return Ok(Read::TooLarge);
    }
    // The words name the picture's path, so a model that takes none has the task.
    let image = Image::from_bytes(&bytes).map(|image| Image { optional: true, ..image });
    Ok(image.map_or(Read::NoPicture, |image| Read::Picture(image, size)))
}

fn options() -> WriteOptions {
    WriteOptions { parents: Parents::Make, ..WriteOptions::default() }
}
