package mirrormsg

// HashPartition is what places a coordinator key.
var HashPartition = hashPartition
