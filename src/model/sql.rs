//! Values as SQL answers them.

/// A value in a row that a query answers.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// Another number.
    Real(f64),
    /// Text; what of it is not UTF-8 is U+FFFD.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}
