"""The stored catalog: objects as records of a compacted topic.

    object_codec     a source, a type or a query as JSON, and back
    catalog_records  the records of a change, and the catalog that records make

A record's key is the kind and the name of an object, its value the object with a version; a null
value deletes it. Nothing here reads a topic; `sql.hosting` does.
"""
