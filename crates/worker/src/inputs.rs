//! Files of the board that are copied into a task's sandbox.

use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt as _;
use vestal_board::{Attachment, Board, HandedOver, Task};
use vestal_model::Image;
use vestal_sandbox::Sandbox;
use vestal_sandbox::files::{FileError, Files, Parents, WriteOptions};

use crate::workspace::{WorkDir, WorkDirError, failed};

/// The most files and bytes of parent tasks that are copied. The rest is listed with its size.
const MOST_FILES: usize = 200;
const MOST_BYTES: u64 = 256 << 20;

/// The most pictures shown to the model, and their bytes in total. Every provider accepts a request
/// of that size; further pictures are listed by path.
const MOST_PICTURES: usize = 10;
const MOST_PICTURE_BYTES: u64 = Image::MOST_BYTES;

/// The files copied for a worker, as paths in its sandbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerInputs {
    /// The full text of the task, if the prompt has only its beginning.
    pub(crate) full_text: Option<PathBuf>,
    /// The task's own files.
    pub(crate) own: Vec<PathBuf>,
    /// The files of parent tasks, in a directory per task.
    pub(crate) handed_over: Vec<PathBuf>,
    /// What was not copied, and why.
    pub(crate) left_out: Vec<String>,
    /// The pictures shown to the model, in this order.
    pub(crate) pictures: Vec<InputPicture>,
    /// Pictures not shown, because there are too many or they are too large.
    pub(crate) pictures_not_shown: Vec<PathBuf>,
}

/// A picture, and where it is in the sandbox.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InputPicture {
    pub(crate) path: PathBuf,
    pub(crate) image: Image,
    /// Bytes of the file.
    pub(crate) size: u64,
}

/// Copies attachments from the board into the sandbox.
struct Copier<'a> {
    board: &'a Board,
    files: Files,
}

/// Why a file of a task before was not copied.
enum MissingInput {
    /// The board does not have it here.
    Source(String),
    /// The sandbox does not take it.
    Target(WorkDirError),
}

impl WorkDir {
    /// Copies what the board has for the task to where the model can read it: beside the place it
    /// works in, in a directory of the sandbox's own, so that every profile and backend sees it and a
    /// directory of the host is left alone.
    pub(crate) async fn copy_inputs(
        &self,
        sandbox: &Sandbox,
        board: &Board,
        task: &Task,
        own: &[Attachment],
        handed_over: &[HandedOver],
    ) -> Result<WorkerInputs, WorkDirError> {
        let mut inputs = WorkerInputs::default();
        if own.is_empty() && handed_over.is_empty() && !task.is_cut_in_context() {
            return Ok(inputs);
        }
        let copier = Copier { board, files: sandbox.files(None).await? };
        if task.is_cut_in_context() {
            let to = self.task_dir.join("task.md");
            let body = &mut task.body.as_bytes();
            copier.files.write_from(&to, body, options()).await.map_err(failed("write", &to))?;
            inputs.full_text = Some(to);
        }
        for attachment in own {
            let to = self.task_dir.join("attachments").join(&attachment.filename);
            match copier.copy(attachment, &to).await {
                Ok(()) => {
                    copier.show(attachment, &to, &mut inputs).await;
                    inputs.own.push(to);
                }
                Err(MissingInput::Source(why)) => {
                    inputs.left_out.push(format!("{}: {why}", attachment.filename));
                }
                Err(MissingInput::Target(error)) => return Err(error),
            }
        }
        let mut bytes = 0;
        for HandedOver { task, files } in handed_over {
            for attachment in files {
                let to =
                    self.task_dir.join("parents").join(task.as_str()).join(&attachment.filename);
                let named = || format!("{} of {task}", attachment.filename);
                let fits =
                    inputs.handed_over.len() < MOST_FILES && bytes + attachment.size <= MOST_BYTES;
                if !fits {
                    let size = attachment.size;
                    inputs.left_out.push(format!("{}: {size} bytes, too much to copy", named()));
                    continue;
                }
                match copier.copy(attachment, &to).await {
                    Ok(()) => {
                        bytes += attachment.size;
                        copier.show(attachment, &to, &mut inputs).await;
                        inputs.handed_over.push(to);
                    }
                    Err(MissingInput::Source(why)) => {
                        inputs.left_out.push(format!("{}: {why}", named()));
                    }
                    Err(MissingInput::Target(error)) => return Err(error),
                }
            }
        }
        Ok(inputs)
    }
}

impl Copier<'_> {
    async fn copy(&self, attachment: &Attachment, to: &Path) -> Result<(), MissingInput> {
        if attachment.host != self.board.host().name {
            return Err(MissingInput::Source(format!("it is on the host {}", attachment.host)));
        }
        let from = self.board.attachment_path(attachment);
        let mut from = tokio::fs::File::open(from).await.map_err(|error| {
            MissingInput::Source(format!("the board's copy cannot be read: {error}"))
        })?;
        let written = self.files.write_from(to, &mut from, options()).await;
        written
            .map(drop)
            .map_err(|error: FileError| MissingInput::Target(failed("copy", to)(error)))
    }
}

impl Copier<'_> {
    /// Adds a copied file to the pictures shown to the model, if it is one.
    async fn show(&self, attachment: &Attachment, to: &Path, inputs: &mut WorkerInputs) {
        let path = to.to_owned();
        let shown: u64 = inputs.pictures.iter().map(|picture| picture.size).sum();
        let left = MOST_PICTURE_BYTES.saturating_sub(shown);
        let left = if inputs.pictures.len() < MOST_PICTURES { left } else { 0 };
        match read_picture(&self.board.attachment_path(attachment), left).await {
            Ok(InputRead::Picture(image, size)) => {
                inputs.pictures.push(InputPicture { path, image, size });
            }
            Ok(InputRead::TooLarge) => inputs.pictures_not_shown.push(path),
            Ok(InputRead::NoPicture) => {}
            // The copy is in the sandbox; the model can still open it there.
            Err(error) => {
                tracing::debug!(%error, name = attachment.filename, "not read as a picture");
            }
        }
    }
}

enum InputRead {
    Picture(Image, u64),
    TooLarge,
    NoPicture,
}

/// Reads a file of at most `most` bytes if its content is a picture.
async fn read_picture(path: &Path, most: u64) -> std::io::Result<InputRead> {
    let mut file = tokio::fs::File::open(path).await?;
    let mut bytes = Vec::new();
    (&mut file).take(Image::HEAD as u64).read_to_end(&mut bytes).await?;
    if !Image::begins_with(&bytes) {
        return Ok(InputRead::NoPicture);
    }
    let rest = (most + 1).saturating_sub(bytes.len() as u64);
    file.take(rest).read_to_end(&mut bytes).await?;
    let size = bytes.len() as u64;
    if size > most {
        return Ok(InputRead::TooLarge);
    }
    // The text names the picture's path, so a model without vision still has the task.
    let image = Image::from_bytes(&bytes).map(|image| Image { optional: true, ..image });
    Ok(image.map_or(InputRead::NoPicture, |image| InputRead::Picture(image, size)))
}

fn options() -> WriteOptions {
    WriteOptions { parents: Parents::Make, ..WriteOptions::default() }
}
