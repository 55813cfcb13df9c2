//! Pictures that go with a question.

use std::path::Path;

use vestal_model::Image;

use crate::error::Failure;

/// Reads a picture, whose kind its content tells, whatever it is called.
pub(super) fn read(path: &Path) -> Result<Image, Failure> {
    // Before it is opened: opening a pipe would wait for a writer.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(Failure::usage(format!("the image {} is not a file", path.display())));
    }
    match vestal_chat::attachments::read_image(path) {
        Ok((image, _)) => Ok(image),
        Err(trouble) => {
            let failure = Failure::usage(trouble.problem);
            Err(trouble.advice.into_iter().fold(failure, Failure::advise))
        }
    }
}
