//! The blocks of code in a text.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// A block of code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeBlock {
    /// What the fence says about it, often a language; empty if nothing.
    pub info: String,
    /// The code, without its fences.
    pub code: String,
}

/// Returns the blocks of code in a Markdown text, in order.
pub fn code_blocks(markdown: &str) -> Vec<CodeBlock> {
    let mut blocks = Vec::new();
    let mut open: Option<CodeBlock> = None;
    for event in Parser::new(markdown) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.trim().to_owned(),
                    CodeBlockKind::Indented => String::new(),
                };
                open = Some(CodeBlock { info, code: String::new() });
            }
            Event::Text(text) => {
                if let Some(block) = &mut open {
                    block.code.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_in_order_and_in_lists() {
        let text =
            "Do:\n\n```sh\nls -l\n```\n\n- then\n\n  ~~~\n  a\n    b\n  ~~~\n\n    indented\n";
        let blocks = code_blocks(text);
        let shown: Vec<_> =
            blocks.iter().map(|block| (block.info.as_str(), block.code.as_str())).collect();
        assert_eq!(shown[0], ("sh", "ls -l\n"));
        assert_eq!(shown[1], ("", "a\n  b\n"));
        assert_eq!(code_blocks("`inline` only"), []);
        // An answer that was cut off.
        assert_eq!(code_blocks("```\nhalf")[0].code, "half");
    }
}
