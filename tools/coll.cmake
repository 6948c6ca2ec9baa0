# `spindrift coll`, as a library that the command links.
add_subdirectory(coll)
