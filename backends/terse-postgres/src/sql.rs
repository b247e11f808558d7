//! Parameters of statements. Each has the PostgreSQL type that belongs to its Rust type, so that a
//! statement is parsed, bound and executed in one round trip without a name on the server.

use std::error::Error;

use terse_core::Timestamp;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// A parameter with its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// The PostgreSQL type of a Rust type.
pub(crate) trait SqlType: ToSql + Sync {
    const TYPE: Type;
}

macro_rules! sql_types {
    ($($rust:ty => $sql:ident, $array:ident;)*) => {$(
        impl SqlType for $rust {
            const TYPE: Type = Type::$sql;
        }
        impl SqlType for Vec<$rust> {
            const TYPE: Type = Type::$array;
        }
        impl SqlType for Vec<Option<$rust>> {
            const TYPE: Type = Type::$array;
        }
    )*};
}

sql_types! {
    bool => BOOL, BOOL_ARRAY;
    i16 => INT2, INT2_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i64 => INT8, INT8_ARRAY;
    f64 => FLOAT8, FLOAT8_ARRAY;
    &str => TEXT, TEXT_ARRAY;
    String => TEXT, TEXT_ARRAY;
    &[u8] => BYTEA, BYTEA_ARRAY;
    Vec<u8> => BYTEA, BYTEA_ARRAY;
    SqlTimestamp => TIMESTAMPTZ, TIMESTAMPTZ_ARRAY;
}

impl<T: SqlType> SqlType for Option<T> {
    const TYPE: Type = T::TYPE;
}

/// The type of a parameter, for [`params!`].
pub(crate) fn type_of<T: SqlType>(_: &T) -> Type {
    T::TYPE
}

/// A list of parameters with their types.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$((&$value as &(dyn tokio_postgres::types::ToSql + Sync), $crate::sql::type_of(&$value))),*]
    };
}
pub(crate) use params;

/// A time in a `timestamptz` column. Times of terse have milliseconds, PostgreSQL's microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SqlTimestamp(pub(crate) Timestamp);

/// 2000-01-01T00:00:00Z, from which PostgreSQL counts, in milliseconds since 1970.
const POSTGRES_EPOCH: i64 = 946_684_800_000;

impl ToSql for SqlTimestamp {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&((self.0.as_ms() - POSTGRES_EPOCH) * 1000).to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for SqlTimestamp {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp::from_ms(micros.div_euclid(1000).saturating_add(POSTGRES_EPOCH))))
    }

    accepts!(TIMESTAMPTZ);
}

/// A text to search for, as a pattern of `LIKE` that matches wherever it occurs.
pub(crate) fn contains_pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_in_a_search_are_literal() {
        assert_eq!(contains_pattern(r"50%_a\b"), r"%50\%\_a\\b%");
    }

    #[test]
    fn times_keep_their_milliseconds() {
        for time in [Timestamp::MIN, Timestamp::EPOCH, Timestamp::from_ms(-1), Timestamp::MAX] {
            let mut bytes = BytesMut::new();
            assert!(SqlTimestamp(time).to_sql(&Type::TIMESTAMPTZ, &mut bytes).is_ok());
            let back = SqlTimestamp::from_sql(&Type::TIMESTAMPTZ, &bytes).map(|at| at.0);
            assert_eq!(back.ok(), Some(time));
        }
    }
}
